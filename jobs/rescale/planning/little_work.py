"""The limit below which Spark is not started, and no time is estimated: starting Spark and its workers takes 5 to 10 s.

The start takes as many seconds of CPU time.
"""

from __future__ import annotations

from collections.abc import Sequence

LITTLE_BYTES = 128 * 1024 * 1024
"""One core hashes, moves and compares this much in two to three seconds, or in three times as long if it is compressed:
about what starting Spark costs."""

LITTLE_UNITS = 256
"""A unit may be a file, and in S3 each file takes a tenth of a second, however small it is."""


def is_little(units: Sequence[tuple[int, object]]) -> bool:
    """Tell whether Spark is not worth its start for `units`: (size in bytes, unit) each."""
    return len(units) <= LITTLE_UNITS and sum(size for size, _ in units) <= LITTLE_BYTES
