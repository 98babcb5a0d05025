"""The limit below which Spark is not started, and no time is estimated: starting Spark and its workers takes 5 to 10 s.

The start takes as many seconds of CPU time.
"""

from __future__ import annotations

from collections.abc import Sequence

LITTLE_BYTES = 128 * 1024 * 1024
"""Bytes that one core hashes, moves and compares in about the time that Spark takes to start: two to three seconds, or
three times as long if they are compressed."""

LITTLE_UNITS = 256
"""Units of work that one process does in that time. A unit may be a file, which in S3 takes a tenth of a second."""


def is_little(units: Sequence[tuple[int, object]]) -> bool:
    """Tell whether Spark is not worth its start for `units`: (size in bytes, unit) each."""
    return len(units) <= LITTLE_UNITS and sum(size for size, _ in units) <= LITTLE_BYTES
