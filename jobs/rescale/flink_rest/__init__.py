"""Client for the REST API of Flink."""
