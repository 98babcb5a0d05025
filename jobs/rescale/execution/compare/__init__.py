"""Compares two snapshots: a result with its source (validation), or any two snapshots (diff)."""
