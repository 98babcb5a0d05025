"""SST files (`BlockBasedTable`), read a few blocks at a time without RocksDB: what a plan needs to know beforehand.

Whole databases are read by RocksDB itself, which knows what was merged and deleted. Here a row is what a file says.
"""
