"""The loop that turns timers into records; compiled, so its module is loaded late."""

from __future__ import annotations

from rescale.flink.arrays import Bytes, Longs
from rescale.flink.compiled import Long, compiled

_TIME_SIZE = 8
_VALUE_LENGTH_SIZE = 4
_SIGN = 0x80


@compiled
def copy_timers(
    data: Bytes, begin: int, ends: Longs, prefix: int, out: Bytes, at: Long, starts: Longs, limits: Longs
) -> tuple[int, Long]:
    """Copies the timers from `begin` on, each up to one of `ends`, into `out` from `at` on, as far as there is room.

    `key namespace time` becomes `prefix time key namespace valueLength`, with `prefix` zero bytes, the time's sign
    flipped and no value. Returns how many were copied, and where in `out` they end.
    """
    for i in range(len(ends)):
        size = ends[i] - begin
        if prefix + size + _VALUE_LENGTH_SIZE > len(out) - at:
            return i, at
        out[at : at + prefix] = 0
        at += prefix
        starts[i] = at
        out[at : at + _TIME_SIZE] = data[ends[i] - _TIME_SIZE : ends[i]]
        out[at] ^= _SIGN
        out[at + _TIME_SIZE : at + size] = data[begin : ends[i] - _TIME_SIZE]
        at += size
        limits[i] = at
        out[at : at + _VALUE_LENGTH_SIZE] = 0
        at += _VALUE_LENGTH_SIZE
        begin = ends[i]
    return len(ends), at
