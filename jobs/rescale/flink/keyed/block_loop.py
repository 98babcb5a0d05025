"""The loops that find the records in blocks: one behind the other, without marks; compiled, so loaded late."""

from __future__ import annotations

from rescale.flink.arrays import Bytes, Longs
from rescale.flink.compiled import Long, compiled
from rescale.flink.keyed.record_walk import number


@compiled
def count_records(data: Bytes, begin: Long, end: Long) -> int:
    """Of the block that is `data[begin:end]`."""
    count = 0
    while begin < end:
        begin += 4 + number(data, begin)
        begin += 4 + number(data, begin)
        count += 1
    return count


@compiled
def find_records(data: Bytes, begin: Long, end: Long, at: int, starts: Longs, limits: Longs, ends: Longs) -> int:
    """Finds the records of a block; puts where keys start and end, and values end, from element `at` on."""
    while begin < end:
        starts[at] = begin + 4
        limits[at] = starts[at] + number(data, begin)
        ends[at] = limits[at] + 4 + number(data, limits[at])
        begin = ends[at]
        at += 1
    return at
