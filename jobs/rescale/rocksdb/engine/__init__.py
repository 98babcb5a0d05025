"""RocksDB itself, called through its library: databases opened, rows read in batches, sorted and written."""
