"""The largest amount of work that a step does in its own process, without starting workers.

Starting workers takes a fraction of a second (`WORKERS_START_SECONDS`), starting Spark 5 to 10 s. The table has the
seconds (CPU seconds) of whole runs that rehash rows of 100 bytes on two busy cores:

    state     1 process   2 workers
    32 MiB    2.3 (2.1)   2.3 (2.4)
    128 MiB   2.7 (2.6)   2.7 (2.8)
    256 MiB   3.6 (3.3)   3.7 (3.8)

More cores help only workers.
"""

from __future__ import annotations

from collections.abc import Sequence

LITTLE_BYTES = 128 * 1024 * 1024
"""Largest number of bytes for one process: it reads, hashes, moves and compares them in about a second, or in three if
they are compressed. With more bytes, workers are faster as soon as they have two idle cores.
"""

LITTLE_UNITS = 256
"""Largest number of units of work for one process. A unit may be a file, which takes 0.1 s in S3."""


def fits_in_process(units: Sequence[tuple[int, object]]) -> bool:
    """Return whether `units`, pairs (size in bytes, unit), are so little work that one process does it."""
    return len(units) <= LITTLE_UNITS and sum(size for size, _ in units) <= LITTLE_BYTES
