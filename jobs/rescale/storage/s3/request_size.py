"""How many bytes a request to S3 asks for. It answers only so many a second for all whose keys begin alike."""

from __future__ import annotations

_READ, _LARGEST_READ, _LONG = 4 << 20, 16 << 20, 64 << 20
"""Bytes of a request, at most of one, and of the longest run that is not worth larger ones."""


def request_size(length: int, at_once: int | None = None) -> int:
    """How many bytes a request asks for, of `length` that lie end to end and are used `at_once` together."""
    least = at_once or _READ
    return max(least, min(_LARGEST_READ, length // 16)) if length > _LONG else least
