"""Part of the names of files that may be copied while the job still runs; a module without imports."""

PREPARED = "prepared"
"""Replaces the part of the plan's digest in the names of other files of state (`prepared_files`)."""
