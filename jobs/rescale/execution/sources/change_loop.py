"""Loops that compare the rows of two databases; compiled, so their module is loaded only when needed.

Rows are records in the order of key group and key; each key occurs once.
"""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import Bytes, Flags, Longs
from rescale.flink.compiled import Long, compare_bytes, compiled, copy_bytes
from rescale.flink.keyed.blocks.record_marks import LENGTH_SIZE
from rescale.rocksdb.manifest.version_edit import DELETION, VALUE


@compiled
def _order_of_rows(
    old_data: Bytes,
    old_key_starts: Longs,
    old_key_ends: Longs,
    old_groups: Longs,
    i: int,
    new_data: Bytes,
    new_key_starts: Longs,
    new_key_ends: Longs,
    new_groups: Longs,
    j: int,
) -> Long:
    """Compare the keys of old row i and new row j: negative, 0 or positive. An index past the last row comes last."""
    if i == len(old_key_starts):
        return np.int64(1)
    if j == len(new_key_starts):
        return np.int64(-1)
    if old_groups[i] != new_groups[j]:
        return old_groups[i] - new_groups[j]
    return compare_bytes(old_data, old_key_starts[i], old_key_ends[i], new_data, new_key_starts[j], new_key_ends[j])


@compiled
def mark_differences(
    old_data: Bytes,
    old_key_starts: Longs,
    old_key_ends: Longs,
    old_ends: Longs,
    old_groups: Longs,
    new_data: Bytes,
    new_key_starts: Longs,
    new_key_ends: Longs,
    new_ends: Longs,
    new_groups: Longs,
    has_old_ended: bool,
    has_new_ended: bool,
    removed: Flags,
    added: Flags,
) -> tuple[int, int]:
    """Mark the old rows that were removed and the new rows that were added, in the flags `removed` and `added`.

    A key with a new value is marked in both. Stops after the last old or the last new row, because later rows may not
    be loaded yet. But if there are no later old rows (`has_old_ended`), all remaining new rows are marked as added; if
    there are no later new rows (`has_new_ended`), all remaining old rows as removed. Returns the numbers of old and of
    new rows that were compared.
    """
    i, j = 0, 0
    while (i < len(old_key_starts) or has_old_ended) and (j < len(new_key_starts) or has_new_ended):
        if i == len(old_key_starts) and j == len(new_key_starts):
            break
        order = _order_of_rows(
            old_data, old_key_starts, old_key_ends, old_groups, i, new_data, new_key_starts, new_key_ends, new_groups, j
        )
        if order < 0:
            removed[i] = True
            i += 1
        elif order > 0:
            added[j] = True
            j += 1
        else:
            value_begin, new_value_begin = old_key_ends[i] + LENGTH_SIZE, new_key_ends[j] + LENGTH_SIZE
            values_differ = (
                compare_bytes(old_data, value_begin, old_ends[i], new_data, new_value_begin, new_ends[j]) != 0
            )
            removed[i], added[j] = values_differ, values_differ
            i += 1
            j += 1
    return i, j


@compiled
def _put_value(data: Bytes, at: Long, value_type: Long, value_data: Bytes, begin: Long, end: Long) -> Long:
    """Write the length of a change's value, its `ValueType`, and `value_data[begin:end]`; return the end offset."""
    size = end - begin + 1
    for shift in range(24, -8, -8):
        data[at] = size >> shift & 0xFF
        at += 1
    data[at] = value_type
    end_of_value: Long = copy_bytes(value_data, begin, end, data, at + 1)
    return end_of_value


@compiled
def put_changes(
    old_data: Bytes,
    old_key_starts: Longs,
    old_key_ends: Longs,
    old_groups: Longs,
    new_data: Bytes,
    new_key_starts: Longs,
    new_key_ends: Longs,
    new_ends: Longs,
    new_groups: Longs,
    prefix_length: int,
    data: Bytes,
    key_starts: Longs,
    key_ends: Longs,
    ends: Longs,
    groups: Longs,
) -> int:
    """Write a record for each key whose row was removed or added: `VALUE` and the new value, or `DELETION`.

    The records are written to `data`, `key_starts`, `key_ends`, `ends` and `groups`. Every key begins with the
    `prefix_length` bytes of its key group. Returns the number of records.
    """
    i, j, record_count, at = 0, 0, 0, np.int64(0)
    while i < len(old_key_starts) or j < len(new_key_starts):
        order = _order_of_rows(
            old_data, old_key_starts, old_key_ends, old_groups, i, new_data, new_key_starts, new_key_ends, new_groups, j
        )
        key_starts[record_count] = at + prefix_length
        if order < 0:
            at = copy_bytes(old_data, old_key_starts[i] - prefix_length, old_key_ends[i], data, at)
            groups[record_count], key_ends[record_count] = old_groups[i], at
            at = _put_value(data, at, DELETION, new_data, 0, 0)
        else:
            at = copy_bytes(new_data, new_key_starts[j] - prefix_length, new_key_ends[j], data, at)
            groups[record_count], key_ends[record_count] = new_groups[j], at
            at = _put_value(data, at, VALUE, new_data, new_key_ends[j] + LENGTH_SIZE, new_ends[j])
            j += 1
        if order <= 0:
            i += 1
        ends[record_count] = at
        record_count += 1
    return record_count


@compiled
def put_entries(
    keys: Bytes,
    entry_starts: Longs,
    entry_ends: Longs,
    trailers: Longs,
    values: Bytes,
    value_starts: Longs,
    value_ends: Longs,
    prefix_length: int,
    data: Bytes,
    key_starts: Longs,
    key_ends: Longs,
    ends: Longs,
    groups: Longs,
) -> None:
    """Write a record for each entry, a value or a deletion, as `put_changes` does."""
    at = np.int64(0)
    for i in range(len(trailers)):
        groups[i] = 0
        for j in range(prefix_length):
            groups[i] = groups[i] << 8 | keys[entry_starts[i] + j]
        key_starts[i] = at + prefix_length
        at = copy_bytes(keys, entry_starts[i], entry_ends[i], data, at)
        key_ends[i] = at
        at = _put_value(data, at, trailers[i] & 0xFF, values, value_starts[i], value_ends[i])
        ends[i] = at
