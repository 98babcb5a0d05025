"""Validation: the comparison of a result with its source."""
