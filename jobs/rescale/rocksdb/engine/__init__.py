"""Read the rows of databases with RocksDB's library, find changed keys, and write SST files from rows."""
