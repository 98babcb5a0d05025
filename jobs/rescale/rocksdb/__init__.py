"""Read Flink's RocksDB directories, and make new ones: assembled from existing files, compacted, or of new rows."""
