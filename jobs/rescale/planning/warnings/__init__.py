"""Warnings that a plan shows to the user before it is executed."""
