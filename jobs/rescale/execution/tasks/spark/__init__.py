"""Tasks and shuffles of Spark."""
