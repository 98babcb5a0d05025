"""Open a snapshot: find its `_metadata`, the files that it names, and read the headers of all streams."""
