"""Checks of the environment: this machine, a source, a target, and Flink."""
