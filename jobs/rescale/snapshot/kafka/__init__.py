"""The offsets of Kafka sources in a snapshot."""
