"""Executors of a step's work: Spark's tasks, or a loop in this process."""
