"""Reader and writer of CURRENT, the MANIFEST and its records, which describe a RocksDB directory."""
