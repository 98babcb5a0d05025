"""Rows of Flink's own serializers, in modules like those of Flink."""
