"""Flink's RocksDB directories: what is in one, its rows in batches, and new ones, assembled, rewritten or written."""
