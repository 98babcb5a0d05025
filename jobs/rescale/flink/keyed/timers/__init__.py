"""Timers that are kept on the heap: raw keyed state."""
