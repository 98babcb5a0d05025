"""Sizes of the tasks, units and parts that work is cut into, and how many of each there may be.

A state of 100 TB is cut into larger tasks, units and parts, for two reasons. The driver keeps a record of every task,
unit and part in memory. And every map task may have rows for every reduce task of a shuffle: with too many of both, the
shuffle has too many small blocks to fetch.
"""

from __future__ import annotations

SLICE_BYTES = 256 * 1024 * 1024
"""Bytes of units that one task works through, one unit after the other."""

MOST_SLICES = 20_000
"""Largest number of tasks of a stage, unless there are so many cores that more tasks are needed to keep them busy."""

UNIT_SIZE = 64 * 1024 * 1024
"""Bytes of key groups that form one unit to read; a larger key group is a unit of its own."""

RANGE_SIZE = 64 * 1024 * 1024
"""Desired bytes of a shuffle partition, and largest size in bytes of a write range, which its task holds in memory."""

MOST_PARTITIONS = 50_000
"""Largest number of partitions of a shuffle. A partition larger than its task's memory spills to disk."""

PART_SIZE = 16 * 1024 * 1024
"""Size of a part of a file in bytes, unless this would make more than `MOST_PARTS` parts."""

LARGEST_PART_SIZE = 32 * 1024 * 1024
"""Largest size of a part in bytes: a task holds several parts at once."""

MOST_PARTS = 1_000_000
"""Number of parts above which parts become larger."""

MOST_UNITS = 100_000
"""Largest number of units to copy. If there are more parts than this, a unit has several parts."""


def part_size_for(state_bytes: int, preferred_size: int) -> int:
    """Return the size of a part in bytes: `preferred_size`, or more if that makes over `MOST_PARTS` parts.

    The result is at most `LARGEST_PART_SIZE`, unless `preferred_size` is larger.
    """
    return max(preferred_size, min(LARGEST_PART_SIZE, -(-state_bytes // MOST_PARTS)))
