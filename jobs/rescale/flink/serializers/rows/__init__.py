"""Rows of Flink's own serializers, a module for each of Flink's that has them."""
