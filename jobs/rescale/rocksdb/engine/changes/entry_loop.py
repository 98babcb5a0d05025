"""Compiled loops that decode the entries of data blocks (`DataBlockIter`), and compare the entries of two databases.

Import this module late: it loads numba.
"""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import Bytes, Flags, Longs
from rescale.flink.compiled import Long, compare_bytes, compiled, copy_bytes
from rescale.rocksdb.manifest.edit_reader import KEY_TRAILER_SIZE
from rescale.rocksdb.manifest.version_edit import ABOVE_ALL_SEQUENCES, DELETION, MERGE, VALUE

_LONGEST_VARINT_BYTES = 5


@compiled
def _read_varint(data: Bytes, at: Long, end: Long) -> tuple[Long, Long]:
    """Return the varint at offset `at`, or -1 if it is cut off or too long, and the offset after it."""
    value = np.int64(0)
    for i in range(_LONGEST_VARINT_BYTES):
        if at >= end:
            break
        byte = np.int64(data[at])
        at += 1
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return value, at
    return np.int64(-1), at


@compiled
def _end_of_entries(data: Bytes, begin: Long, end: Long) -> Long:
    """Return the end offset of a block's entries; it is before `begin` if the block's restart points do not fit."""
    if end - begin < 4:
        return begin - 1
    restart_count = np.int64(0)
    for i in range(4):
        restart_count |= np.int64(data[end - 4 + i]) << 8 * i
    return end - 4 * (restart_count + 1)


@compiled
def measure_entries(data: Bytes, block_starts: Longs, block_ends: Longs) -> tuple[Long, Long, Long]:
    """Return the number of entries in the blocks, and the total size of their user keys in bytes.

    The third value is the index of the first damaged block, -1 if no block is damaged.
    """
    entry_count, key_bytes = np.int64(0), np.int64(0)
    for block in range(len(block_ends)):
        begin = block_starts[block]
        end = _end_of_entries(data, begin, block_ends[block])
        is_damaged = end < begin
        at, previous_key_size = begin, np.int64(0)
        while not is_damaged and at < end:
            shared_size, at = _read_varint(data, at, end)
            unshared_size, at = _read_varint(data, at, end)
            value_size, at = _read_varint(data, at, end)
            key_size = shared_size + unshared_size
            at += unshared_size + value_size
            is_damaged = (
                shared_size < 0
                or unshared_size < 0
                or value_size < 0
                or shared_size > previous_key_size
                or key_size < KEY_TRAILER_SIZE
                or at > end
            )
            previous_key_size = key_size
            key_bytes += key_size - KEY_TRAILER_SIZE
            entry_count += 1
        if is_damaged:
            return np.int64(0), np.int64(0), np.int64(block)
    return entry_count, key_bytes, np.int64(-1)


@compiled
def decode_entries(
    data: Bytes,
    block_starts: Longs,
    block_ends: Longs,
    keys: Bytes,
    key_ends: Longs,
    trailers: Longs,
    value_starts: Longs,
    value_ends: Longs,
) -> None:
    """Decode undamaged blocks (see `measure_entries`) into user keys end to end, trailers, and offsets of values."""
    filled_key_bytes, entry_count = np.int64(0), 0
    last_key = np.empty(1024, np.uint8)
    for block in range(len(block_ends)):
        at = block_starts[block]
        end = _end_of_entries(data, at, block_ends[block])
        while at < end:
            shared_size, at = _read_varint(data, at, end)
            unshared_size, at = _read_varint(data, at, end)
            value_size, at = _read_varint(data, at, end)
            key_size = shared_size + unshared_size
            if key_size > len(last_key):
                larger_key = np.empty(2 * key_size, np.uint8)
                copy_bytes(last_key, 0, shared_size, larger_key, 0)
                last_key = larger_key
            copy_bytes(data, at, at + unshared_size, last_key, shared_size)
            at += unshared_size
            trailer = np.int64(0)
            for i in range(KEY_TRAILER_SIZE):
                trailer |= np.int64(last_key[key_size - KEY_TRAILER_SIZE + i]) << 8 * i
            filled_key_bytes = copy_bytes(last_key, 0, key_size - KEY_TRAILER_SIZE, keys, filled_key_bytes)
            key_ends[entry_count] = filled_key_bytes
            trailers[entry_count] = trailer
            value_starts[entry_count] = at
            at += value_size
            value_ends[entry_count] = at
            entry_count += 1


@compiled
def first_at_least(keys: Bytes, key_starts: Longs, key_ends: Longs, key: Bytes) -> Long:
    """Return the index of the first of sorted keys that is at least `key`."""
    low, high = np.int64(0), np.int64(len(key_ends))
    while low < high:
        middle = (low + high) // 2
        if compare_bytes(keys, key_starts[middle], key_ends[middle], key, 0, len(key)) < 0:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def mark_blocks(separators: Bytes, separator_ends: Longs, keys: Bytes, key_ends: Longs, may_have_rows: Flags) -> None:
    """Mark in `may_have_rows` the blocks of a file that may have rows with one of the sorted `keys`.

    The last key of block i is at most separator i, and the first key of the next block is at least that separator. If a
    key is not in its block, RocksDB searches the next block, so both blocks are marked.
    """
    block, block_count = 0, len(separator_ends)
    for i in range(len(key_ends)):
        key_begin = key_ends[i - 1] if i else np.int64(0)
        comparison = np.int64(-1)
        while block < block_count:
            separator_begin = separator_ends[block - 1] if block else np.int64(0)
            comparison = compare_bytes(separators, separator_begin, separator_ends[block], keys, key_begin, key_ends[i])
            if comparison >= 0:
                break
            block += 1
        next_block = block
        while next_block < block_count and comparison == 0:
            may_have_rows[next_block] = True
            next_block += 1
            if next_block < block_count:
                comparison = compare_bytes(
                    separators, separator_ends[next_block - 1], separator_ends[next_block], keys, key_begin, key_ends[i]
                )
        for j in range(next_block, min(next_block + 2, block_count)):
            may_have_rows[j] = True


@compiled
def first_unsorted(keys: Bytes, key_ends: Longs, trailers: Longs) -> Long:
    """Return the index of the first entry that is out of order; -1 if all are sorted.

    Entries are ordered by key, and the entries of one key by trailer, the newest first.
    """
    for i in range(1, len(key_ends)):
        begin = key_ends[i - 2] if i > 1 else np.int64(0)
        comparison = compare_bytes(keys, begin, key_ends[i - 1], keys, key_ends[i - 1], key_ends[i])
        if comparison > 0 or (comparison == 0 and np.uint64(trailers[i - 1]) < np.uint64(trailers[i])):
            return np.int64(i)
    return np.int64(-1)


@compiled
def copy_keys(keys: Bytes, starts: Longs, ends: Longs, out: Bytes) -> None:
    """Copy the keys `keys[starts[i]:ends[i]]` end to end into `out`."""
    at = np.int64(0)
    for i in range(len(starts)):
        at = copy_bytes(keys, starts[i], ends[i], out, at)


@compiled
def _is_same_value(data: Bytes, value_starts: Longs, value_ends: Longs, i: Long, j: Long) -> bool:
    comparison: Long = compare_bytes(data, value_starts[i], value_ends[i], data, value_starts[j], value_ends[j])
    return bool(comparison == 0)


@compiled
def _oldest_at(
    keys: Bytes, begin: Long, end: Long, bounds: Bytes, bound_ends: Longs, oldest_sequences: Longs, passed_count: Longs
) -> Long:
    """Return `oldest_sequences[i]` for the last of the sorted keys `bounds` that is at most the key `keys[begin:end]`.

    Returns `ABOVE_ALL_SEQUENCES` if all `bounds` are larger. `passed_count` has one element: the number of bounds at or
    before the key of the last call. Calls must come in the order of keys.
    """
    while passed_count[0] < len(bound_ends):
        bound_start = bound_ends[passed_count[0] - 1] if passed_count[0] else np.int64(0)
        if compare_bytes(bounds, bound_start, bound_ends[passed_count[0]], keys, begin, end) > 0:
            break
        passed_count[0] += 1
    return oldest_sequences[passed_count[0] - 1] if passed_count[0] else np.int64(ABOVE_ALL_SEQUENCES)


@compiled
def changed_keys(
    data: Bytes,
    keys: Bytes,
    key_starts: Longs,
    key_ends: Longs,
    trailers: Longs,
    value_starts: Longs,
    value_ends: Longs,
    run_starts: Longs,
    run_ends: Longs,
    is_later: Longs,
    bounds: Bytes,
    bound_ends: Longs,
    oldest_sequences: Longs,
    last_sequence: Long,
    changed_indices: Longs,
    newer_indices: Longs,
) -> Long:
    """Find the keys whose live value may differ between an earlier and a later database.

    Run r has the sorted entries `run_starts[r]` to `run_ends[r]`; `is_later[r]` is 1 if the run belongs to the later
    database, else 0. For each key whose value may differ, `changed_indices` receives the index of one of its entries.
    `newer_indices` receives the index of the key's newest entry in the later database if this entry is a value,
    deletion or merge operand with a sequence number above `last_sequence`; else -1. `last_sequence` is the last
    sequence number of the earlier database. Returns the number of keys.

    All entries that are not in a run are in both databases. The live value of a key is the same if the key's newest
    entries in the runs of both databases are the same write. They are the same write if they have the same type, value
    and sequence number. A compaction into the last level sets the sequence number to 0, so 0 in the later database
    counts as the same number. In that case no shared entry of the key may be older than the write, because that entry
    would hide the row with sequence number 0. `oldest_sequences[i]` is the smallest sequence number above 0 that shared
    entries with keys from bound i up to the next bound may have (`bounds` are sorted keys). RocksDB combines a merge
    operand with the entries below it, so the operand must be the key's only entry in the runs of each database.
    """
    next_indices = run_starts.copy()
    newest_indices = np.empty(2, np.int64)
    entry_counts = np.empty(2, np.int64)
    changed_count = 0
    passed_count = np.zeros(1, np.int64)
    while True:
        least_index = np.int64(-1)
        for r in range(len(next_indices)):
            if next_indices[r] < run_ends[r]:
                i = next_indices[r]
                if (
                    least_index < 0
                    or compare_bytes(
                        keys, key_starts[i], key_ends[i], keys, key_starts[least_index], key_ends[least_index]
                    )
                    < 0
                ):
                    least_index = i
        if least_index < 0:
            return np.int64(changed_count)
        newest_indices[:] = -1
        entry_counts[:] = 0
        for r in range(len(next_indices)):
            database_index, i = is_later[r], next_indices[r]
            while (
                i < run_ends[r]
                and compare_bytes(
                    keys, key_starts[i], key_ends[i], keys, key_starts[least_index], key_ends[least_index]
                )
                == 0
            ):
                if newest_indices[database_index] < 0 or np.uint64(trailers[i]) > np.uint64(
                    trailers[newest_indices[database_index]]
                ):
                    newest_indices[database_index] = i
                entry_counts[database_index] += 1
                i += 1
            next_indices[r] = i
        earlier_index, later_index = newest_indices[0], newest_indices[1]
        is_same = False
        if earlier_index >= 0 and later_index >= 0:
            earlier_kind, later_kind = trailers[earlier_index] & 0xFF, trailers[later_index] & 0xFF
            if earlier_kind == later_kind and _is_same_value(
                data, value_starts, value_ends, earlier_index, later_index
            ):
                is_same_trailer = trailers[earlier_index] == trailers[later_index]
                if earlier_kind == VALUE:
                    is_same = is_same_trailer or (
                        trailers[later_index] >> 8 == 0
                        and trailers[earlier_index] >> 8
                        < _oldest_at(
                            keys,
                            key_starts[least_index],
                            key_ends[least_index],
                            bounds,
                            bound_ends,
                            oldest_sequences,
                            passed_count,
                        )
                    )
                elif earlier_kind == MERGE:
                    is_same = is_same_trailer and entry_counts[0] == 1 and entry_counts[1] == 1
                else:
                    is_same = is_same_trailer and earlier_kind == DELETION
        if not is_same:
            changed_indices[changed_count] = least_index
            newer_indices[changed_count] = -1
            if later_index >= 0 and np.uint64(trailers[later_index]) >> np.uint64(8) > np.uint64(last_sequence):
                later_kind = trailers[later_index] & 0xFF
                if later_kind in (VALUE, DELETION, MERGE):
                    newer_indices[changed_count] = later_index
            changed_count += 1
