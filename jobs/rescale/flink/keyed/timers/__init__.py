"""Timers that a RocksDB job keeps on the heap: checkpoints hold them as raw keyed state."""
