"""Sizes of requests to S3, which limits the number of requests a second for keys with a common prefix."""

from __future__ import annotations

_READ, _LARGEST_READ, _LONG = 4 << 20, 16 << 20, 64 << 20
"""Bytes of a usual request, of the largest one, and of the longest range that is read with usual requests."""


def request_size(length: int, at_once: int | None = None) -> int:
    """Return the bytes to request at once from a range of `length` bytes, of which `at_once` are used together."""
    least = at_once or _READ
    return max(least, min(_LARGEST_READ, length // 16)) if length > _LONG else least
