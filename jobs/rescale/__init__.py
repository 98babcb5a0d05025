"""Rescale changes the shape of a Flink job's state between two runs of the job."""
