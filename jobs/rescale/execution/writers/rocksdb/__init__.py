"""Writers of RocksDB directories."""
