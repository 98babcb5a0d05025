"""Sizes of requests to S3, which limits the number of requests a second for keys with a common prefix."""

from __future__ import annotations

_READ, _LARGEST_READ, _LONG = 4 << 20, 16 << 20, 64 << 20
"""Bytes of a usual request, of the largest one, and of the longest run that is not worth larger requests."""


def request_size(length: int, at_once: int | None = None) -> int:
    """Return the bytes of a request, for `length` bytes that lie end to end and are used `at_once` together."""
    least = at_once or _READ
    return max(least, min(_LARGEST_READ, length // 16)) if length > _LONG else least
