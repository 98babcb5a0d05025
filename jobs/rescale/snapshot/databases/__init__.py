"""RocksDB directories of a snapshot, as far as their small files and the indexes of SST files tell."""
