"""Compiled loop that converts the entries of a heap key group to records.

Import this module inside functions (see `compiled`).
"""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import Bytes, HashCodes, Longs
from rescale.flink.compiled import Long, compiled, copy_bytes
from rescale.flink.keyed.blocks.record_marks import LENGTH_SIZE
from rescale.flink.keyed.blocks.record_walk import read_u32
from rescale.flink.keys import machine

VALUE, LIST, MAP, QUEUE_ELEMENT = range(4)
"""Content of an entry (`EntryKind`): a value, a list, a map, or just an element of a priority queue."""

ENTRIES_LEFT, ITEMS_LEFT, HELD_SIZE = range(3)
"""Indices in `progress`: remaining entries, remaining items of a map, number of bytes in `held_key`."""

FINE, NO_ROOM, NO_ROOM_TO_HOLD = 0, 100, 101
"""Result codes, in addition to the error codes of `machine`."""

_MAX_LENGTH_SIZE = 4
"""Largest size of a length after a key or a namespace (`CompositeKeySerializationUtils.writeVariableIntBytes`)."""
DELIMITER = 0x2C
"""Delimiter of `ListDelimitedSerializer`."""


@compiled
def end_of_value(
    instructions: Longs,
    depth: int,
    data: Bytes,
    at: Long,
    spare_longs: Longs,
    spare_hashes: HashCodes,
    spare_flags: Bytes,
) -> tuple[Long, Long]:
    """Return (end of the value at `at`, error code); the last three arrays are scratch space.

    Values of fixed size, such as most namespaces and numbers, are measured without `machine`.
    """
    if (
        instructions[0, 0] == machine.FIXED
        and instructions[1, 0] == machine.STOP
        and instructions[0, 2] != machine.BOOLEAN
    ):
        end = at + instructions[0, 1]
        return (at, np.int64(machine.SHORT)) if end > len(data) else (end, np.int64(FINE))
    spare_longs[0], spare_longs[1] = at, len(data)
    machine.walk(
        instructions, depth, data, spare_longs[0:1], spare_longs[1:2], spare_longs[2:3], spare_hashes, spare_flags
    )
    return spare_longs[2], np.int64(spare_flags[0])


@compiled
def _put_length(length: Long, out: Bytes, at: Long) -> Long:
    """Write a length in little-endian order, in as few bytes as possible; return its end."""
    out[at] = length & 0xFF
    at += 1
    length >>= 8
    while length:
        out[at] = length & 0xFF
        at += 1
        length >>= 8
    return at


@compiled
def _put_key(data: Bytes, begin: Long, key_start: Long, end: Long, has_lengths: int, out: Bytes, at: Long) -> Long:
    """Write the key `data[key_start:end]`, then the namespace `data[begin:key_start]`; return the end in `out`.

    With `has_lengths`, the key and the namespace are each followed by their length.
    """
    at = copy_bytes(data, key_start, end, out, at)
    if has_lengths:
        at = _put_length(end - key_start, out, at)
    at = copy_bytes(data, begin, key_start, out, at)
    return _put_length(key_start - begin, out, at) if has_lengths else at


@compiled
def _put_i32(value: Long, out: Bytes, at: Long) -> None:
    out[at], out[at + 1] = value >> 24 & 0xFF, value >> 16 & 0xFF
    out[at + 2], out[at + 3] = value >> 8 & 0xFF, value & 0xFF


@compiled
def copy_entries(
    data: Bytes,
    at: Long,
    kind: int,
    namespace_program: Longs,
    key_program: Longs,
    first_program: Longs,
    second_program: Longs,
    depth: int,
    has_lengths: int,
    prefix_size: int,
    progress: Longs,
    held_key: Bytes,
    out: Bytes,
    filled_bytes: Long,
    key_starts: Longs,
    key_ends: Longs,
    ends: Longs,
) -> tuple[int, Long, Long, Long]:
    """Convert the entries at `at` to records in `out` at `filled_bytes`; `progress` counts the remaining entries.

    An entry is `namespace key value`; a list is `count { first }*`, and a map is `count { first isNull [second] }*`. In
    a priority queue, an entry is `first`. A record is `prefix key namespace [first] valueLength value`, with
    `prefix_size` zero bytes. A list becomes one record, with a delimiter between its elements; each item of a map
    becomes a record. With `has_lengths`, the key and the namespace are each followed by their length.

    The loop stops if the last three arrays, `out`, or `held_key` are full, or if an entry or item is not complete in
    `data`. `held_key` keeps the key and the namespace of a map for its items. Returns (number of records, start of the
    next entry or item, end of the records in `out`, result code).
    """
    spare_longs, spare_hashes, spare_flags = np.empty(3, np.int64), np.empty(1, np.int32), np.zeros(1, np.uint8)
    record_count, error_code = 0, np.int64(FINE)
    while record_count < len(key_starts) and (progress[ENTRIES_LEFT] or progress[ITEMS_LEFT]):
        record_start = filled_bytes + prefix_size
        if progress[ITEMS_LEFT]:
            user_key_end, error_code = end_of_value(
                first_program, depth, data, at, spare_longs, spare_hashes, spare_flags
            )
            if error_code == FINE and user_key_end >= len(data):
                error_code = np.int64(machine.SHORT)
            if error_code != FINE:
                break
            end = user_key_end + 1
            if data[user_key_end] > 1:
                error_code = np.int64(machine.BAD_FLAG)
            elif not data[user_key_end]:
                end, error_code = end_of_value(second_program, depth, data, end, spare_longs, spare_hashes, spare_flags)
            if error_code != FINE:
                break
            if record_start + progress[HELD_SIZE] + end - at + LENGTH_SIZE > len(out):
                error_code = np.int64(NO_ROOM)
                break
            key_end = copy_bytes(held_key, np.int64(0), progress[HELD_SIZE], out, record_start)
            key_end = copy_bytes(data, at, user_key_end, out, key_end)
            value_end = copy_bytes(data, user_key_end, end, out, key_end + LENGTH_SIZE)
            at = end
            progress[ITEMS_LEFT] -= 1
        elif kind == QUEUE_ELEMENT:
            end, error_code = end_of_value(first_program, depth, data, at, spare_longs, spare_hashes, spare_flags)
            if error_code == FINE and record_start + end - at + LENGTH_SIZE > len(out):
                error_code = np.int64(NO_ROOM)
            if error_code != FINE:
                break
            key_end = copy_bytes(data, at, end, out, record_start)
            value_end = key_end + LENGTH_SIZE
            at = end
            progress[ENTRIES_LEFT] -= 1
        else:
            key_start, error_code = end_of_value(
                namespace_program, depth, data, at, spare_longs, spare_hashes, spare_flags
            )
            if error_code != FINE:
                break
            value_start, error_code = end_of_value(
                key_program, depth, data, key_start, spare_longs, spare_hashes, spare_flags
            )
            if error_code != FINE:
                break
            largest_key_size = value_start - at + 2 * _MAX_LENGTH_SIZE
            item_count = np.int64(0)
            if kind != VALUE:
                if value_start + 4 > len(data):
                    error_code = np.int64(machine.SHORT)
                    break
                item_count = read_u32(data, value_start)
                if item_count > 0x7FFFFFFF:
                    error_code = np.int64(machine.BAD_LENGTH)
                    break
            if kind != VALUE and item_count == 0:  # empty lists and maps have no record
                at = value_start + 4
                progress[ENTRIES_LEFT] -= 1
                continue
            if kind == MAP:
                if largest_key_size > len(held_key):
                    error_code = np.int64(NO_ROOM_TO_HOLD)
                    break
                progress[HELD_SIZE] = _put_key(data, at, key_start, value_start, has_lengths, held_key, np.int64(0))
                progress[ITEMS_LEFT] = item_count
                progress[ENTRIES_LEFT] -= 1
                at = value_start + 4
                continue
            if record_start + largest_key_size + LENGTH_SIZE > len(out):
                error_code = np.int64(NO_ROOM)
                break
            key_end = _put_key(data, at, key_start, value_start, has_lengths, out, record_start)
            value_end = key_end + LENGTH_SIZE
            end = value_start if kind == VALUE else value_start + 4
            for i in range(1 if kind == VALUE else item_count):
                begin = end
                end, error_code = end_of_value(
                    first_program, depth, data, begin, spare_longs, spare_hashes, spare_flags
                )
                if error_code == FINE and value_end + 1 + end - begin > len(out):
                    error_code = np.int64(NO_ROOM)
                if error_code != FINE:
                    break
                if i:
                    out[value_end] = DELIMITER
                    value_end += 1
                value_end = copy_bytes(data, begin, end, out, value_end)
            if error_code != FINE:
                break
            at = end
            progress[ENTRIES_LEFT] -= 1
        out[filled_bytes:record_start] = 0
        key_starts[record_count], key_ends[record_count], ends[record_count] = record_start, key_end, value_end
        _put_i32(value_end - key_end - LENGTH_SIZE, out, key_end)
        filled_bytes = value_end
        record_count += 1
    return record_count, at, filled_bytes, error_code
