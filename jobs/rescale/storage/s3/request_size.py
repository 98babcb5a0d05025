"""Sizes of requests to S3, which limits the number of requests a second for keys with a common prefix."""

from __future__ import annotations

_READ, _LARGEST_READ, _LONG = 4 << 20, 16 << 20, 64 << 20
"""Size of a usual request, size of the largest request, and longest range that is read with usual requests, in bytes.
"""


def request_size(length: int, at_once: int | None = None) -> int:
    """Return the number of bytes to request at once from a range of `length` bytes.

    The caller processes `at_once` bytes together; None if any size suits the caller.
    """
    least_size = at_once or _READ
    return max(least_size, min(_LARGEST_READ, length // 16)) if length > _LONG else least_size
