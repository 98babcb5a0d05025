"""Scheduled rescales: a file describes windows, and each of them becomes a DAG."""
