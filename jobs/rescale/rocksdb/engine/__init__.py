"""RocksDB itself, called through its library: it opens databases, and reads and writes rows in batches."""
