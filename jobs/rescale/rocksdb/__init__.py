"""Native RocksDB directories of Flink, read as they are: what is in one, and its rows in batches."""
