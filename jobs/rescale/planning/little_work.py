"""How much there must be to do for Spark to be started, and for the time that it takes to be estimated.

Until Spark and its workers are there 5 to 10 s go by, and as many seconds of CPU time.
"""

from __future__ import annotations

from collections.abc import Sequence

LITTLE_BYTES = 128 * 1024 * 1024
"""A loop on one core hashes, moves and compares as many in two to three seconds, and may take three times as long where
they are packed: about what a start costs."""

LITTLE_UNITS = 256
"""A unit may be a file, which in S3 takes a tenth of a second, however small it is."""


def is_little(units: Sequence[tuple[int, object]]) -> bool:
    """Of units, each with the bytes that it is worth."""
    return len(units) <= LITTLE_UNITS and sum(size for size, _ in units) <= LITTLE_BYTES
