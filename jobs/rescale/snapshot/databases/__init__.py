"""RocksDB directories of a snapshot: what their small files and the indexes of SST files tell."""
