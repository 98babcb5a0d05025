"""Reader and writer of heap framing: key groups as the heap backend writes them (`HeapSnapshotStrategy`)."""
