"""Rows (`Serializer`) that describe Flink's own serializers, in modules like those of Flink."""
