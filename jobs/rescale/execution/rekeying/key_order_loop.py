"""The loops that bring records into the order of their keys; compiled, so their module is loaded late."""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import Bytes, Longs
from rescale.flink.compiled import Long, compiled, copy_bytes
from rescale.flink.keyed.blocks.record_walk import number


@compiled
def _is_less(data: Bytes, start: Long, limit: Long, other_start: Long, other_limit: Long) -> bool:
    """Whether the bytes up to `limit` come before the other ones."""
    for i in range(min(limit - start, other_limit - other_start)):
        one, other = data[np.uint64(start + i)], data[np.uint64(other_start + i)]
        if one != other:
            return bool(one < other)
    return bool(limit - start < other_limit - other_start)


@compiled
def put_records(data: Bytes, starts: Longs, ends: Longs, order: Longs, out: Bytes) -> None:
    """Writes whole records in an order, one behind the other."""
    at = np.int64(0)
    for i in order:
        at = copy_bytes(data, starts[i] - 4, ends[i], out, at)


@compiled
def _record_end(data: Bytes, at: Long, end: Long) -> Long:
    """Where the record ends that begins `at`; as far as one can tell, if it ends behind `end`."""
    if end - at < 4:
        return at + 4
    limit = at + 4 + number(data, at)
    if end - limit < 4:
        return limit + 4
    return limit + 4 + number(data, limit)


@compiled
def merge_runs(data: Bytes, at: Longs, ends: Longs, left: Longs, out: Bytes) -> tuple[Long, Long, int]:
    """Writes the records of sorted runs in the order of their keys; of equal ones that of the first run comes first.

    What is loaded of run i is `data[at[i]:ends[i]]`, and `at` is moved behind what was taken; `left[i]` bytes of it are
    not loaded. It ends when there is no more, when a run has not even its next record loaded, or when the next one
    finds no room. Returns (bytes, where the last record begins, run that needs more or -1).
    """
    size = last = np.int64(0)
    while True:
        least, least_end = -1, np.int64(0)
        for i in range(len(at)):
            if at[i] == ends[i] and left[i] == 0:
                continue
            end = _record_end(data, at[i], ends[i])
            if end > ends[i]:
                return size, last, i
            limit = at[i] + 4 + number(data, at[i])
            if least < 0 or _is_less(data, at[i] + 4, limit, at[least] + 4, at[least] + 4 + number(data, at[least])):
                least, least_end = i, end
        if least < 0 or size + least_end - at[least] > len(out):
            return size, last, -1
        last = size
        size = copy_bytes(data, at[least], least_end, out, size)
        at[least] = least_end
