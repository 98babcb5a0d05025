"""RocksDB directories, written file by file."""
