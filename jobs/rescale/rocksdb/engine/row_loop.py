"""Compiled loops that copy rows from a RocksDB iterator into a buffer.

Import this module inside functions (see `compiled`). The loops call RocksDB's functions by the names that `library`
registers, not by address, so that the machine code can be cached on disk for later processes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import config, types

from rescale.flink.arrays import Bytes, Longs
from rescale.flink.compiled import Long, compiled
from rescale.flink.keyed.blocks.record_marks import ID_SIZE, LENGTH_SIZE, NEXT_ID_FLAG

_rocksdb_iter_valid: Any = types.ExternalFunction("rocksdb_iter_valid", types.uint8(types.int64))
_rocksdb_iter_next: Any = types.ExternalFunction("rocksdb_iter_next", types.void(types.int64))
_rocksdb_iter_key: Any = types.ExternalFunction("rocksdb_iter_key", types.int64(types.int64, types.int64))
_rocksdb_iter_value: Any = types.ExternalFunction("rocksdb_iter_value", types.int64(types.int64, types.int64))
_rocksdb_get_pinned_cf: Any = types.ExternalFunction("rocksdb_get_pinned_cf", types.int64(*[types.int64] * 6))
_rocksdb_pinnableslice_value: Any = types.ExternalFunction(
    "rocksdb_pinnableslice_value", types.int64(types.int64, types.int64)
)
_rocksdb_pinnableslice_destroy: Any = types.ExternalFunction("rocksdb_pinnableslice_destroy", types.void(types.int64))
_memcpy: Any = types.ExternalFunction("memcpy", types.int64(types.int64, types.int64, types.int64))


@compiled
def _put_length(data: Bytes, at: Long, length: Long) -> Long:
    data[at] = length >> 24 & 0xFF
    data[at + 1] = length >> 16 & 0xFF
    data[at + 2] = length >> 8 & 0xFF
    data[at + 3] = length & 0xFF
    return at + LENGTH_SIZE


@compiled
def copy_rows(
    iterator: int,
    prefix_bytes: int,
    data: Bytes,
    scratch: Longs,
    key_starts: Longs,
    key_ends: Longs,
    row_ends: Longs,
    key_groups: Longs,
) -> tuple[int, Long]:
    """Copy rows as key, value length and value into `data`, until the iterator or the room in an array ends.

    `key_starts` and `key_ends` receive the begin (after the key group) and the end of each key, `row_ends` the end of
    each value, and `key_groups` the key group. `scratch` has one element, for a length that RocksDB returns. Returns
    the number of rows, and the bytes that the next row needs if `data` has no room for it. The second number is 0 if
    the iterator ended or the other arrays are full, and -1 if the key of the next row is too short for a key group.
    """
    data_address, length_address = data.ctypes.data, scratch.ctypes.data
    at, count = np.int64(0), 0
    while count < len(key_starts) and _rocksdb_iter_valid(iterator):
        key_address = _rocksdb_iter_key(iterator, length_address)
        key_length = scratch[0]
        value_address = _rocksdb_iter_value(iterator, length_address)
        value_length = scratch[0]
        if key_length < prefix_bytes:
            return count, np.int64(-1)
        if key_length + LENGTH_SIZE + value_length > len(data) - at:
            return count, key_length + LENGTH_SIZE + value_length
        _memcpy(data_address + at, key_address, key_length)
        key_group = np.int64(data[at])
        if prefix_bytes == 2:
            key_group = key_group << 8 | np.int64(data[at + 1])
        key_starts[count] = at + prefix_bytes
        at += key_length
        key_ends[count] = at
        at = _put_length(data, at, value_length)
        _memcpy(data_address + at, value_address, value_length)
        at += value_length
        row_ends[count] = at
        key_groups[count] = key_group
        count += 1
        _rocksdb_iter_next(iterator)
    return count, np.int64(0)


@compiled
def find_rows(
    database: int,
    options: int,
    family: int,
    keys: Bytes,
    searched_ends: Longs,
    first_key: int,
    prefix_bytes: int,
    data: Bytes,
    scratch: Longs,
    key_starts: Longs,
    key_ends: Longs,
    row_ends: Longs,
    key_groups: Longs,
) -> tuple[int, int, Long]:
    """Look up keys and copy their rows, as `copy_rows` does; keys without a row are skipped.

    The keys lie end to end, and the search begins with key number `first_key`. Returns the number of rows, the number
    of the next key, and the bytes that its row needs if there was no room for it. The second element of `scratch` must
    be 0; if RocksDB reports an error, the search ends, and that element is the address of the error text.
    """
    data_address, keys_address = data.ctypes.data, keys.ctypes.data
    length_address, error_address = scratch.ctypes.data, scratch.ctypes.data + 8
    at, count = np.int64(0), 0
    for i in range(first_key, len(searched_ends)):
        key_begin = searched_ends[i - 1] if i else np.int64(0)
        key_length = searched_ends[i] - key_begin
        pinned_slice = _rocksdb_get_pinned_cf(
            database, options, family, keys_address + key_begin, key_length, error_address
        )
        if scratch[1] != 0:
            return count, i, np.int64(0)
        if pinned_slice == 0:
            continue
        value_address = _rocksdb_pinnableslice_value(pinned_slice, length_address)
        value_length = scratch[0]
        needed_bytes = key_length + LENGTH_SIZE + value_length
        if count == len(key_starts) or needed_bytes > len(data) - at:
            _rocksdb_pinnableslice_destroy(pinned_slice)
            return count, i, needed_bytes
        _memcpy(data_address + at, keys_address + key_begin, key_length)
        key_group = np.int64(data[at])
        if prefix_bytes == 2:
            key_group = key_group << 8 | np.int64(data[at + 1])
        key_starts[count] = at + prefix_bytes
        at += key_length
        key_ends[count] = at
        at = _put_length(data, at, value_length)
        _memcpy(data_address + at, value_address, value_length)
        at += value_length
        row_ends[count] = at
        key_groups[count] = key_group
        count += 1
        _rocksdb_pinnableslice_destroy(pinned_slice)
    return count, len(searched_ends), np.int64(0)


NO_ROW, SHORT_KEY = -1, -2
"""Values in place of a key group: the iterator is at its end, or the key is too short for a key group."""


@compiled
def _key_of_row(iterator: int, prefix_bytes: int, scratch: Longs) -> tuple[Long, Long, Long]:
    """Return the address and the length of the next row's key, and its key group, `NO_ROW` or `SHORT_KEY`."""
    if not _rocksdb_iter_valid(iterator):
        return np.int64(0), np.int64(0), np.int64(NO_ROW)
    key_address = _rocksdb_iter_key(iterator, scratch.ctypes.data)
    if scratch[0] < prefix_bytes:
        return key_address, scratch[0], np.int64(SHORT_KEY)
    _memcpy(scratch.ctypes.data + 8, key_address, prefix_bytes)
    first_byte = scratch[1] & 0xFF
    return key_address, scratch[0], first_byte << 8 | scratch[1] >> 8 & 0xFF if prefix_bytes == 2 else first_byte


@compiled
def key_group_of_row(iterator: int, prefix_bytes: int, scratch: Longs) -> Long:
    """Return the key group of the next row, `NO_ROW` or `SHORT_KEY`; `scratch` is as in `frame_rows`."""
    return _key_of_row(iterator, prefix_bytes, scratch)[2]


@compiled
def frame_rows(
    iterator: int,
    prefix_bytes: int,
    first_id: int,
    end_mark: int,
    data: Bytes,
    scratch: Longs,
    key_starts: Longs,
    key_ends: Longs,
    row_ends: Longs,
    data_offset: int,
) -> tuple[int, Long, Long, Long]:
    """Copy rows of one key group as records in canonical framing, until the key group or the room in an array ends.

    The loop writes the state id `first_id` before the rows, unless it is negative. It flags the state's last row in the
    key group, and writes `end_mark` after this row. `key_starts`, `key_ends` and `row_ends` are as in `copy_rows`, and
    count from `data_offset` bytes before `data`. `scratch` has two elements, for a length that RocksDB returns and for
    a key group. Returns the number of rows, the bytes written, the bytes that the next row needs if there was no room
    for it, and the key group of the next row.
    """
    data_address, length_address = data.ctypes.data, scratch.ctypes.data
    at, count = np.int64(0), 0
    key_address, key_length, key_group = _key_of_row(iterator, prefix_bytes, scratch)
    next_key_group = key_group
    while next_key_group == key_group and key_group >= 0:
        value_address = _rocksdb_iter_value(iterator, length_address)
        value_length = scratch[0]
        needed_bytes = 2 * ID_SIZE + 2 * LENGTH_SIZE + key_length + value_length
        if count == len(key_starts) or needed_bytes > len(data) - at:
            return count, at, needed_bytes, key_group
        if first_id >= 0 and count == 0:
            data[at], data[at + 1] = first_id >> 8 & 0xFF, first_id & 0xFF
            at += ID_SIZE
        at = _put_length(data, at, key_length)
        key_begin = at
        _memcpy(data_address + at, key_address, key_length)
        key_starts[count] = data_offset + at + prefix_bytes
        at += key_length
        key_ends[count] = data_offset + at
        at = _put_length(data, at, value_length)
        _memcpy(data_address + at, value_address, value_length)
        at += value_length
        row_ends[count] = data_offset + at
        count += 1
        _rocksdb_iter_next(iterator)
        key_address, key_length, next_key_group = _key_of_row(iterator, prefix_bytes, scratch)
        if next_key_group != key_group:
            data[key_begin] |= NEXT_ID_FLAG
            data[at], data[at + 1] = end_mark >> 8 & 0xFF, end_mark & 0xFF
            at += ID_SIZE
    return count, at, np.int64(0), next_key_group


def compile_loops() -> None:
    """Compile all loops, so that processes forked from this one need not. `library` must have been called before."""
    data, longs = types.Array(types.uint8, 1, "C"), types.Array(types.int64, 1, "C")
    integer = types.int64
    loops: list[tuple[Any, tuple[Any, ...]]] = [
        (copy_rows, (integer, integer, data, *[longs] * 5)),
        (find_rows, (integer, integer, integer, data, longs, integer, integer, data, *[longs] * 5)),
        (key_group_of_row, (integer, integer, longs)),
        (frame_rows, (integer, integer, integer, integer, data, *[longs] * 4, integer)),
    ]
    if not config.DISABLE_JIT:  # type: ignore[attr-defined]
        for loop, signature in loops:
            loop.compile(signature)
