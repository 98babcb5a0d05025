"""RocksDB directories of a snapshot, by their small files and indexes alone."""
