"""Errors, names, numbers and times as people read them; every other package may import this one."""
