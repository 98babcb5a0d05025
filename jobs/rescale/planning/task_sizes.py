"""Of what sizes work is dealt to tasks, and into how many at most: a state of 100 TB has larger ones.

What the driver knows of each task, unit and part takes memory; and every sender of a shuffle may have something for
every one who writes, so that too many of both leave rows that are too small to be fetched.
"""

from __future__ import annotations

SLICE_BYTES = 256 * 1024 * 1024
"""Of units that a task works through one after the other."""

MOST_SLICES = 20_000
"""Tasks of a stage, unless there are more cores than these keep busy."""

UNIT_SIZE = 64 * 1024 * 1024
"""Of key groups that are one unit to be read; a larger key group is one, too."""

RANGE_SIZE = 64 * 1024 * 1024
"""That a partition should get, and a write range at most: a task holds as much in memory while it writes."""

MOST_PARTITIONS = 50_000
"""Of a shuffle. What one has beyond its memory goes to the scratch directory."""

PART_SIZE = 16 * 1024 * 1024
LARGEST_PART = 32 * 1024 * 1024
"""Tasks hold several at once."""

MOST_PARTS = 1_000_000
"""From here on parts are larger."""

MOST_UNITS = 100_000
"""To be copied: with more parts than that each has several."""


def part_size_for(size: int, good: int) -> int:
    """Bytes of each part of the files of a state of `size` bytes: `good`, or more where that made too many."""
    return max(good, min(LARGEST_PART, -(-size // MOST_PARTS)))
