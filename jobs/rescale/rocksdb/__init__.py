"""Read Flink's RocksDB directories, and make new ones: from existing files, by compaction, or from new rows."""
