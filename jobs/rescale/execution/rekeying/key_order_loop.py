"""Loops that sort records by their keys; compiled, so their module is loaded only when needed."""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import Bytes, Longs, Words
from rescale.flink.compiled import Long, compiled, copy_bytes
from rescale.flink.keyed.blocks.key_sort_loop import word_of_key
from rescale.flink.keyed.blocks.record_marks import LENGTH_SIZE
from rescale.flink.keyed.blocks.record_walk import read_u32


@compiled
def put_records(data: Bytes, key_starts: Longs, ends: Longs, order: Longs, out: Bytes) -> None:
    """Write whole records in the given order, end to end."""
    at = np.int64(0)
    for i in order:
        at = copy_bytes(data, key_starts[i] - LENGTH_SIZE, ends[i], out, at)


@compiled
def _record_end(data: Bytes, at: Long, end: Long) -> Long:
    """Return the end of the record at `at`. If the record is not loaded completely, return an offset beyond `end`."""
    if end - at < LENGTH_SIZE:
        return at + LENGTH_SIZE
    key_end = at + LENGTH_SIZE + read_u32(data, at)
    if end - key_end < LENGTH_SIZE:
        return key_end + LENGTH_SIZE
    return key_end + LENGTH_SIZE + read_u32(data, key_end)


@compiled
def merge_runs(data: Bytes, positions: Longs, ends: Longs, unloaded_sizes: Longs, out: Bytes) -> tuple[Long, Long, int]:
    """Merge sorted runs by key into `out`; of equal keys, the record of the first run comes first.

    The loaded part of run i is `data[positions[i]:ends[i]]`; `positions` advances over merged records, and
    `unloaded_sizes[i]` bytes of the run are not loaded yet. The merge stops at the end of all runs, or when the next
    record is not loaded or does not fit. Returns (number of bytes written, offset of the last record in `out`, run that
    must be loaded or -1).
    """
    size = last_offset = np.int64(0)
    key_words = np.empty(len(positions), np.uint64)
    heap = np.empty(len(positions), np.int64)
    heap_size = 0
    for run in range(len(positions)):
        if positions[run] == ends[run] and unloaded_sizes[run] == 0:
            continue
        if _record_end(data, positions[run], ends[run]) > ends[run]:
            return size, last_offset, run
        key_words[run] = _next_word(data, positions[run])
        heap[heap_size] = run
        heap_size += 1
    for node in range(heap_size // 2 - 1, -1, -1):
        _sift_down(data, positions, key_words, heap, heap_size, node)
    while heap_size:
        run = heap[0]
        end = _record_end(data, positions[run], ends[run])
        if size + end - positions[run] > len(out):
            break
        last_offset = size
        size = copy_bytes(data, positions[run], end, out, size)
        positions[run] = end
        if end == ends[run] and unloaded_sizes[run] == 0:
            heap_size -= 1
            heap[0] = heap[heap_size]
        elif _record_end(data, end, ends[run]) > ends[run]:
            return size, last_offset, run
        else:
            key_words[run] = _next_word(data, end)
        _sift_down(data, positions, key_words, heap, heap_size, 0)
    return size, last_offset, -1


@compiled
def _next_word(data: Bytes, at: Long) -> np.uint64:
    """Return the first eight bytes of a record's key as a number."""
    return word_of_key(data, at + LENGTH_SIZE, at + LENGTH_SIZE + read_u32(data, at))


@compiled
def _sift_down(data: Bytes, positions: Longs, key_words: Words, heap: Longs, heap_size: int, node: int) -> None:
    """Sift the run in `heap[node]` down until no run below it comes first."""
    run = heap[node]
    while 2 * node + 1 < heap_size:
        child = 2 * node + 1
        child_run = heap[child]
        if child + 1 < heap_size:
            sibling_run = heap[child + 1]
            if key_words[sibling_run] < key_words[child_run] or (
                key_words[sibling_run] == key_words[child_run] and _precedes(data, positions, sibling_run, child_run)
            ):
                child, child_run = child + 1, sibling_run
        if key_words[run] < key_words[child_run] or (
            key_words[run] == key_words[child_run] and _precedes(data, positions, run, child_run)
        ):
            break
        heap[node] = child_run
        node = child
    heap[node] = run


@compiled
def _precedes(data: Bytes, positions: Longs, run: Long, other_run: Long) -> bool:
    """Return whether the next record of `run` precedes that of `other_run`, if their `key_words` are equal."""
    begin, other_begin = positions[run] + LENGTH_SIZE, positions[other_run] + LENGTH_SIZE
    size, other_size = read_u32(data, positions[run]), read_u32(data, positions[other_run])
    for i in range(min(size, other_size)):
        byte, other_byte = data[np.uint64(begin + i)], data[np.uint64(other_begin + i)]
        if byte != other_byte:
            return bool(byte < other_byte)
    return bool(run < other_run) if size == other_size else bool(size < other_size)
