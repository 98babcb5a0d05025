"""New streams in canonical framing (`FullSnapshotAsyncWriter`), from sorted blocks, or from databases in order."""
