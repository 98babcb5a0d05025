"""The part of a file's name that shows that the file may be copied ahead; a module without imports."""

PREPARED = "prepared"
"""Stands where the names of other files of state have a part of their plan's digest (`prepared_files`)."""
