"""Part of the names of files that may be copied while the job still runs; a module without imports."""

PREPARED = "prepared"
"""Replaces the digits of the plan's digest in the names of files that are copied ahead (`prepared_files`)."""
