"""Writes streams in canonical framing (`FullSnapshotAsyncWriter`), from sorted blocks or from RocksDB directories."""
