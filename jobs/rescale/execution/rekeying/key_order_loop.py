"""The loops that bring records into the order of their keys; compiled, so their module is loaded late."""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import Bytes, Longs, Words
from rescale.flink.compiled import Long, compiled, copy_bytes
from rescale.flink.keyed.blocks.key_sort_loop import word_of_key
from rescale.flink.keyed.blocks.record_walk import number


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
    words = np.empty(len(at), np.uint64)
    heap = np.empty(len(at), np.int64)
    count = 0
    for run in range(len(at)):
        if at[run] == ends[run] and left[run] == 0:
            continue
        if _record_end(data, at[run], ends[run]) > ends[run]:
            return size, last, run
        words[run] = _next_word(data, at[run])
        heap[count] = run
        count += 1
    for place in range(count // 2 - 1, -1, -1):
        _sink(data, at, words, heap, count, place)
    while count:
        run = heap[0]
        end = _record_end(data, at[run], ends[run])
        if size + end - at[run] > len(out):
            break
        last = size
        size = copy_bytes(data, at[run], end, out, size)
        at[run] = end
        if end == ends[run] and left[run] == 0:
            count -= 1
            heap[0] = heap[count]
        elif _record_end(data, end, ends[run]) > ends[run]:
            return size, last, run
        else:
            words[run] = _next_word(data, end)
        _sink(data, at, words, heap, count, 0)
    return size, last, -1


@compiled
def _next_word(data: Bytes, at: Long) -> np.uint64:
    """The first eight bytes of the key of a record."""
    return word_of_key(data, at + 4, at + 4 + number(data, at))


@compiled
def _sink(data: Bytes, at: Longs, words: Words, heap: Longs, count: int, place: int) -> None:
    """Lets the run at a place of the heap sink until none below it comes first."""
    run = heap[place]
    while 2 * place + 1 < count:
        below = 2 * place + 1
        first = heap[below]
        if below + 1 < count:
            other = heap[below + 1]
            if words[other] < words[first] or (words[other] == words[first] and _comes_first(data, at, other, first)):
                below, first = below + 1, other
        if words[run] < words[first] or (words[run] == words[first] and _comes_first(data, at, run, first)):
            break
        heap[place] = first
        place = below
    heap[place] = run


@compiled
def _comes_first(data: Bytes, at: Longs, one: Long, other: Long) -> bool:
    """Whether the next record of a run is written before that of another, where their words are equal."""
    begin, other_begin = at[one] + 4, at[other] + 4
    size, other_size = number(data, at[one]), number(data, at[other])
    for i in range(min(size, other_size)):
        byte, other_byte = data[np.uint64(begin + i)], data[np.uint64(other_begin + i)]
        if byte != other_byte:
            return bool(byte < other_byte)
    return bool(one < other) if size == other_size else bool(size < other_size)
