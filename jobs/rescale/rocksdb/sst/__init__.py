"""Read SST files (`BlockBasedTable`) block by block without RocksDB, and write their parts.

Planning needs single blocks only. RocksDB itself reads whole databases, and applies merges and deletes. In this package
a row is an entry of one file, even if another file overwrites it.
"""
