"""The model of a snapshot: its metadata, the extents of its streams, and their headers."""
