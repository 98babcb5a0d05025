"""Compiled loops that find the records in blocks. Import this module inside functions (see `compiled`).

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
    data: Bytes, begins: Longs, ends: Longs, key_starts: Longs, key_ends: Longs, record_ends: Longs
) -> None:
    """Fill `key_starts` and `key_ends` with the bounds of each record's key, `record_ends` with its value's end."""
    count = 0
    for i in range(len(begins)):
        begin = begins[i]
        while begin < ends[i]:
            key_starts[count] = begin + LENGTH_SIZE
            key_ends[count] = key_starts[count] + read_u32(data, begin)
            record_ends[count] = key_ends[count] + LENGTH_SIZE + read_u32(data, key_ends[count])
            begin = record_ends[count]
            count += 1
