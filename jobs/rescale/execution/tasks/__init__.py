"""Runs a step's work in this process, in worker processes, or in Spark's tasks."""
