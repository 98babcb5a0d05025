"""What a RocksDB directory says of itself: CURRENT, the MANIFEST and its records, read and written."""
