"""New raw keyed streams of timers that RocksDB jobs keep on the heap, made of sorted blocks."""
