"""New streams in canonical framing (`FullSnapshotAsyncWriter`): of sorted blocks, or read off databases in order."""
