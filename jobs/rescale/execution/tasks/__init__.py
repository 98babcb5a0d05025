"""Executors of a step's work: a loop in this process, worker processes, or Spark's tasks."""
