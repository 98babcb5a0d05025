"""Rescale changes the shape of a Flink job's state while the job is stopped."""
