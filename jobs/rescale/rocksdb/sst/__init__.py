"""Reading of SST files (`BlockBasedTable`) block by block without RocksDB, and writing of their parts.

Planning needs single blocks only. Whole databases are read by RocksDB itself, which applies merges and deletes; a row
here is an entry of one file.
"""
