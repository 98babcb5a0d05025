"""Compiled loop that converts records to the entries of a heap key group.

Import this module inside functions (see `compiled`).
"""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import Bytes, Longs
from rescale.flink.compiled import Long, compiled, copy_bytes
from rescale.flink.keyed.blocks.record_marks import LENGTH_SIZE
from rescale.flink.keyed.blocks.record_walk import read_u32
from rescale.flink.keys import machine


@compiled
def _size_of_length(length: Long) -> Long:
    """Return the number of bytes that a length takes in a composite key."""
    size = np.int64(1)
    length >>= 8
    while length:
        size += 1
        length >>= 8
    return size


@compiled
def write_entries(
    data: Bytes,
    begin: Long,
    end: Long,
    prefix_size: int,
    is_queue: int,
    key_program: Longs,
    depth: int,
    has_lengths: int,
    out: Bytes,
) -> Long:
    """Convert the records of a block to entries in `out`; return the end of the entries, or -1 if a key is malformed.

    This loop reverses `heap_loop.copy_entries`, if each entry became a single record (`EntryLayout.as_whole_entries`).
    """
    spare_longs, spare_hashes, spare_flags = np.empty(3, np.int64), np.empty(1, np.int32), np.zeros(1, np.uint8)
    at = np.int64(0)
    while begin < end:
        composite_start, key_end = begin + LENGTH_SIZE + prefix_size, begin + LENGTH_SIZE + read_u32(data, begin)
        value_start, begin = key_end + LENGTH_SIZE, key_end + LENGTH_SIZE + read_u32(data, key_end)
        if is_queue:
            at = copy_bytes(data, composite_start, key_end, out, at)
            continue
        spare_longs[0], spare_longs[1] = composite_start, key_end
        machine.walk(
            key_program, depth, data, spare_longs[0:1], spare_longs[1:2], spare_longs[2:3], spare_hashes, spare_flags
        )
        if spare_flags[0] != machine.FINE:
            return np.int64(-1)
        namespace_start = spare_longs[2]
        if has_lengths:
            namespace_start += _size_of_length(spare_longs[2] - composite_start)
            length_size = np.int64(1)
            while length_size < 4 and _size_of_length(key_end - namespace_start - length_size) != length_size:
                length_size += 1
            key_end -= length_size
        at = copy_bytes(data, namespace_start, key_end, out, at)
        at = copy_bytes(data, composite_start, spare_longs[2], out, at)
        at = copy_bytes(data, value_start, begin, out, at)
    return at
