"""Comparison of two snapshots: the validation of a result, and the diff of any two."""
