"""Serializer snapshots: how Flink describes the types of keys, namespaces and values."""
