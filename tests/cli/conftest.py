"""Fixtures for tests of the command line."""

from support.ground import ground

__all__ = ["ground"]
