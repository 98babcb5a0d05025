"""Compiled loops that find the records in blocks; import this module late (see `compiled`).

A block is a run of records of one operator, key group and state: `{ keyLength:i32 key valueLength:i32 value }*`.
"""

from __future__ import annotations

from rescale.flink.arrays import Bytes, Longs
from rescale.flink.compiled import Long, compiled
from rescale.flink.keyed.blocks.record_marks import LENGTH_SIZE
from rescale.flink.keyed.blocks.record_walk import read_u32


@compiled
def count_records(data: Bytes, begin: Long, end: Long) -> int:
    """Return the number of records in the block `data[begin:end]`."""
    count = 0
    while begin < end:
        begin += LENGTH_SIZE + read_u32(data, begin)
        begin += LENGTH_SIZE + read_u32(data, begin)
        count += 1
    return count


@compiled
def count_all_records(data: Bytes, begins: Longs, ends: Longs, counts: Longs) -> None:
    """Fill `counts` with the number of records in each block `data[begins[i]:ends[i]]`."""
    for i in range(len(begins)):
        counts[i] = count_records(data, begins[i], ends[i])


@compiled
def find_all_records(
    data: Bytes, begins: Longs, ends: Longs, starts: Longs, key_ends: Longs, record_ends: Longs
) -> None:
    """Fill `starts` and `key_ends` with both ends of each record's key, and `record_ends` with the end of its value."""
    at = 0
    for i in range(len(begins)):
        begin = begins[i]
        while begin < ends[i]:
            starts[at] = begin + LENGTH_SIZE
            key_ends[at] = starts[at] + read_u32(data, begin)
            record_ends[at] = key_ends[at] + LENGTH_SIZE + read_u32(data, key_ends[at])
            begin = record_ends[at]
            at += 1
