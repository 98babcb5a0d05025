"""Sizes of requests to S3, which limits the number of requests a second for keys with a common prefix."""

from __future__ import annotations

_USUAL_REQUEST_BYTES, _LARGEST_REQUEST_BYTES, _LONGEST_USUAL_RANGE_BYTES = 4 << 20, 16 << 20, 64 << 20
"""Size of a usual and of the largest request, and the longest range that is read with usual requests, in bytes."""


def request_size(length: int, bytes_at_once: int | None = None) -> int:
    """Return the number of bytes to request at once from a range of `length` bytes.

    The caller processes `bytes_at_once` bytes together; None if any size suits the caller.
    """
    least_size = bytes_at_once or _USUAL_REQUEST_BYTES
    return (
        max(least_size, min(_LARGEST_REQUEST_BYTES, length // 16))
        if length > _LONGEST_USUAL_RANGE_BYTES
        else least_size
    )
