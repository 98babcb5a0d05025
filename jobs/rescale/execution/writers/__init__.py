"""New streams of every kind, written to the target."""
