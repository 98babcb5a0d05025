"""Warnings of a plan, for its reader to know before it is executed."""
