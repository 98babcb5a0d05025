"""Read a snapshot into a model: its metadata, the extents of its streams, and their headers."""
