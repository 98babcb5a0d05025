"""Spark, and how work is dealt to its tasks."""
