"""Compiled loops that convert timers to records and back. Import this module inside functions (see `compiled`)."""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import Bytes, Longs
from rescale.flink.compiled import Long, compiled, copy_bytes
from rescale.flink.keyed.blocks.record_marks import LENGTH_SIZE
from rescale.flink.keyed.blocks.record_walk import read_u32

_TIME_SIZE = 8
_SIGN_BIT = 0x80


@compiled
def copy_timers(
    data: Bytes, begin: int, ends: Longs, prefix_size: int, out: Bytes, at: Long, key_starts: Longs, key_ends: Longs
) -> tuple[int, Long]:
    """Convert timers to records in `out`, from `at` on, until `out` is full.

    The timers lie end to end from `begin` on, and end at `ends`. A timer `key namespace time` becomes the record
    `prefix time key namespace valueLength`, with `prefix_size` zero bytes, a flipped sign bit of the time, and no
    value. Returns (number of converted timers, end of their records in `out`).
    """
    for i in range(len(ends)):
        size = ends[i] - begin
        if prefix_size + size + LENGTH_SIZE > len(out) - at:
            return i, at
        out[at : at + prefix_size] = 0
        at += prefix_size
        key_starts[i] = at
        out[at : at + _TIME_SIZE] = data[ends[i] - _TIME_SIZE : ends[i]]
        out[at] ^= _SIGN_BIT
        out[at + _TIME_SIZE : at + size] = data[begin : ends[i] - _TIME_SIZE]
        at += size
        key_ends[i] = at
        out[at : at + LENGTH_SIZE] = 0
        at += LENGTH_SIZE
        begin = ends[i]
    return len(ends), at


@compiled
def copy_records(data: Bytes, begin: Long, end: Long, prefix_size: int, out: Bytes) -> Long:
    """Convert the records of a block to timers in `out`; return the end of the timers; the inverse of `copy_timers`.

    A record is `keyLength prefix time key namespace valueLength`.
    """
    at = np.int64(0)
    while begin < end:
        time_start, key_end = begin + LENGTH_SIZE + prefix_size, begin + LENGTH_SIZE + read_u32(data, begin)
        at = copy_bytes(data, time_start + _TIME_SIZE, key_end, out, at)
        out[at] = data[time_start] ^ _SIGN_BIT
        at = copy_bytes(data, time_start + 1, time_start + _TIME_SIZE, out, at + 1)
        begin = key_end + LENGTH_SIZE
    return at
