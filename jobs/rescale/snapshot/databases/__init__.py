"""Read the small files of a snapshot's RocksDB directories, and the indexes of their SST files."""
