"""Rescales by the clock: windows that are written down in one file, each of which becomes a DAG."""
