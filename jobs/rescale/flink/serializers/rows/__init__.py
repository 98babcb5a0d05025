"""Rows of Flink's own serializers, by Flink's modules."""
