"""Compiled loops that find old values by their times of last access.

Import this module inside functions (see `compiled`).

A value is old if it was last accessed at or before a cutoff (ms since 1970). `is_kept` is false for records to remove.
"""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import Bytes, Flags, HashCodes, Longs
from rescale.flink.compiled import Long, compiled, copy_bytes
from rescale.flink.keyed.blocks.record_marks import LENGTH_SIZE
from rescale.flink.keyed.heap.heap_entries import EntryKind
from rescale.flink.keyed.heap.heap_loop import DELIMITER, FINE, end_of_value
from rescale.flink.keyed.ttl.last_access import TIME_SIZE
from rescale.flink.keys import machine

_VALUE, _MAP = int(EntryKind.VALUE), int(EntryKind.MAP)


@compiled
def _read_time(data: Bytes, at: Long) -> Long:
    time = np.int64(0)
    for i in range(TIME_SIZE):
        time = time << 8 | np.int64(data[at + i])
    return time


@compiled
def unmark_old_records(
    data: Bytes,
    key_ends: Longs,
    ends: Longs,
    state_ids: Longs,
    kind_by_state: Longs,
    cutoff_by_state: Longs,
    is_kept: Flags,
) -> Long:
    """Clear `is_kept` of records whose value was last accessed at or before `cutoff_by_state[state id]`.

    `kind_by_state` has the `EntryKind` of each state; -1 for a state without a cutoff. `is_kept` does not change for
    lists, and for states without a cutoff. Returns the index of a value that is too short to have a time; -1 if there
    is none.
    """
    for i in range(len(state_ids)):
        kind = kind_by_state[state_ids[i]]
        if kind != _VALUE and kind != _MAP:
            continue
        at = key_ends[i] + LENGTH_SIZE
        if kind == _MAP:
            if at < ends[i] and data[at] == 1:
                continue  # a null has no time, and does not expire
            at += 1
        if at + TIME_SIZE > ends[i]:
            return i
        if _read_time(data, at) <= cutoff_by_state[state_ids[i]]:
            is_kept[i] = False
    return np.int64(-1)


@compiled
def _element_end(
    data: Bytes,
    at: Long,
    end: Long,
    instructions: Longs,
    depth: int,
    spare_longs: Longs,
    spare_hashes: HashCodes,
    spare_flags: Bytes,
) -> tuple[Long, Long]:
    """Return (end of the element at `at` of a list that ends at `end`, error code).

    The `instructions` (of `machine`) read an element after its time; the last three arrays are scratch space.
    """
    if at + TIME_SIZE > end:
        return at, np.int64(machine.SHORT)
    element_end, error_code = end_of_value(
        instructions, depth, data[:end], at + TIME_SIZE, spare_longs, spare_hashes, spare_flags
    )
    if error_code == FINE and element_end < end and (data[element_end] != DELIMITER or element_end + 1 == end):
        error_code = np.int64(machine.BAD_FLAG)
    return element_end, error_code


@compiled
def shorten_lists(
    data: Bytes,
    key_ends: Longs,
    ends: Longs,
    list_indices: Longs,
    instructions: Longs,
    depth: int,
    cutoff: Long,
    is_kept: Flags,
) -> tuple[Long, Long]:
    """Remove old elements from the lists at `list_indices`, in place; clear `is_kept` of lists left empty.

    An element is old if its time is at most `cutoff`; `instructions` are as for `_element_end`. The loop updates
    `ends`, and the lengths in `data`. Returns (index of a list that cannot be read, error code), or (-1, `FINE`).
    """
    spare_longs, spare_hashes, spare_flags = np.empty(3, np.int64), np.empty(1, np.int32), np.zeros(1, np.uint8)
    for i in list_indices:
        begin, end = key_ends[i] + LENGTH_SIZE, ends[i]
        at, kept_end = begin, begin
        while at < end:
            element_end, error_code = _element_end(
                data, at, end, instructions, depth, spare_longs, spare_hashes, spare_flags
            )
            if error_code != FINE:
                return i, error_code
            if _read_time(data, at) > cutoff:
                if kept_end > begin:
                    data[kept_end] = DELIMITER
                    kept_end += 1
                kept_end = copy_bytes(data, at, element_end, data, kept_end)
            at = element_end + 1
        if kept_end == begin and begin < end:
            is_kept[i] = False
        elif kept_end < end:
            size, length_at = kept_end - begin, key_ends[i]
            data[length_at], data[length_at + 1] = size >> 24 & 0xFF, size >> 16 & 0xFF
            data[length_at + 2], data[length_at + 3] = size >> 8 & 0xFF, size & 0xFF
            ends[i] = kept_end
    return np.int64(-1), np.int64(FINE)


@compiled
def find_elements(
    data: Bytes,
    key_ends: Longs,
    ends: Longs,
    list_indices: Longs,
    instructions: Longs,
    depth: int,
    owners: Longs,
    element_starts: Longs,
    element_ends: Longs,
) -> tuple[Long, Long, Long]:
    """Find the elements of the lists at `list_indices`.

    For each element, `owners` gets the index of its list, `element_starts` its start, and `element_ends` its end.
    Callers make these arrays long enough. Returns (number of elements, index of a list that cannot be read or -1, error
    code or `FINE`).
    """
    spare_longs, spare_hashes, spare_flags = np.empty(3, np.int64), np.empty(1, np.int32), np.zeros(1, np.uint8)
    element_count = np.int64(0)
    for i in list_indices:
        at, end = key_ends[i] + LENGTH_SIZE, ends[i]
        while at < end:
            element_end, error_code = _element_end(
                data, at, end, instructions, depth, spare_longs, spare_hashes, spare_flags
            )
            if error_code != FINE:
                return element_count, i, error_code
            owners[element_count], element_starts[element_count], element_ends[element_count] = i, at, element_end
            element_count += 1
            at = element_end + 1
    return element_count, np.int64(-1), np.int64(FINE)
