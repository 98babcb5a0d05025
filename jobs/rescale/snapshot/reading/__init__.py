"""Reading of a snapshot: the search for its `_metadata`, the files that it names, and the headers of all streams."""
