"""Read SST files (`BlockBasedTable`) block by block without RocksDB, and write their parts.

Planning needs single blocks only. Whole databases are read with RocksDB's library (`engine`), which applies merges and
deletes. In this package, a row is an entry of one file, even if an entry of another file overwrites it.
"""
