"""Compiled loops that build SST files (`BlockBasedTableBuilder`). Import this module inside functions (see `compiled`).

Functions of RocksDB's library compress blocks with LZ4 and compute CRCs. `library` registers their names.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from rescale.flink.arrays import Bytes, Longs
from rescale.flink.compiled import Long, compiled
from rescale.rocksdb.manifest.edit_reader import KEY_TRAILER_SIZE
from rescale.rocksdb.manifest.version_edit import DELETION, VALUE
from rescale.rocksdb.sst.table_blocks import TRAILER_SIZE

_lz4_sizeof_state: Any = types.ExternalFunction("LZ4_sizeofState", types.int32())
_lz4_compress: Any = types.ExternalFunction(
    "LZ4_compress_fast_extState",
    types.int32(types.int64, types.int64, types.int64, types.int32, types.int32, types.int32),
)
_crc32c: Any = types.ExternalFunction("rescale_crc32c", types.uint32(types.uint32, types.int64, types.int64))
_memcpy: Any = types.ExternalFunction("memcpy", types.int64(types.int64, types.int64, types.int64))

BLOCK_SIZE = 4096
"""Approximate size of a block before compression: RocksDB's default (`block_size`), and Flink's."""

_NEARLY_FULL_BYTES = (BLOCK_SIZE * 90 + 99) // 100
"""Block size in bytes above which a row that does not fit starts the next block (`block_size_deviation`)."""

_RESTART_INTERVAL = 16
MOST_RESTARTS = BLOCK_SIZE // _RESTART_INTERVAL

_LZ4_TYPE = 4
_LARGEST_LZ4_BYTES = 0x7E000000
"""Largest block in bytes that LZ4 can compress (`LZ4_MAX_INPUT_SIZE`)."""

_LARGEST_SHARE_IN_1024THS = 896
"""Largest size of a block stored compressed, in 1024ths of its uncompressed size (`GoodCompressionRatio`)."""

_ENTRY_OVERHEAD_BYTES = 3 * 5 + KEY_TRAILER_SIZE
_BLOCK_OVERHEAD_BYTES = 4 * (MOST_RESTARTS + 1) + TRAILER_SIZE
ROW_OVERHEAD_BYTES = _ENTRY_OVERHEAD_BYTES + _BLOCK_OVERHEAD_BYTES
"""Largest number of bytes that a row takes in addition to its key and value, including the end of its block."""

INDEX_OVERHEAD_BYTES = 5 + 5 + 10 + 10 + 4
"""Largest number of bytes that an index entry takes in addition to its key."""

(
    OUT_SIZE,
    BLOCK_BEGIN,
    OUT_OFFSET,
    BLOCK_ROWS,
    BLOCK_RESTARTS,
    LAST_KEY_SIZE,
    INDEX_SIZE,
    BLOCKS,
    ROWS,
    KEY_BYTES,
    VALUE_BYTES,
    DELETES,
    LAST_KIND,
    SEQUENCE,
) = range(14)
"""Indexes in `numbers`, the state that `put_rows` keeps from call to call.

* `OUT_SIZE`, `BLOCK_BEGIN`, `OUT_OFFSET`: filled bytes of `out`, begin of the unfinished block in it, and offset of
  `out` in the file.
* `BLOCK_ROWS`, `BLOCK_RESTARTS`: rows and restarts in the unfinished block.
* `LAST_KEY_SIZE`: size of the last key in bytes, -1 before the first. `LAST_KIND`: kind of the last row.
* `INDEX_SIZE`, `BLOCKS`: filled bytes of the index, and blocks in it.
* `ROWS`, `KEY_BYTES`, `VALUE_BYTES`, `DELETES`: rows of the file, bytes of their keys and values, and deletes among
  the rows.
* `SEQUENCE`: sequence number of all rows.
"""

DONE, NO_ROOM, FULL, OUT_OF_ORDER = range(4)
"""Why `put_rows` returned: no more rows, no more room in an array, the file is full, or the next key is not larger."""


@compiled
def lz4_state() -> Longs:
    """Return working memory for LZ4."""
    return np.zeros(_lz4_sizeof_state() // 8 + 1, np.int64)


@compiled
def _put_varint(data: Bytes, at: Long, value: Long) -> Long:
    while value > 0x7F:
        data[np.uint64(at)] = value & 0x7F | 0x80
        value >>= 7
        at += 1
    data[np.uint64(at)] = value
    return at + 1


@compiled
def _varint_size(value: Long) -> Long:
    size = np.int64(1)
    while value > 0x7F:
        value >>= 7
        size += 1
    return size


@compiled
def _put_fixed32(data: Bytes, at: Long, value: Long) -> Long:
    for i in range(4):
        data[np.uint64(at + i)] = value >> 8 * i & 0xFF
    return at + 4


@compiled
def seal_block(data: Bytes, begin: Long, size: Long, scratch: Bytes, lz4: Longs) -> Long:
    """Compress the content `data[begin:begin + size]` if that saves enough space, and write its trailer after it.

    `data` must have room for the trailer, and `scratch` for the content. Returns the size of the stored content.
    """
    varint_size = _varint_size(size)
    room_bytes = (size * _LARGEST_SHARE_IN_1024THS >> 10) - varint_size
    compression = 0
    if room_bytes > 0 and size <= _LARGEST_LZ4_BYTES:
        scratch_address = scratch.ctypes.data
        compressed_size = _lz4_compress(
            lz4.ctypes.data,
            data.ctypes.data + begin,
            scratch_address,
            np.int32(size),
            np.int32(room_bytes),
            np.int32(1),
        )
        if compressed_size > 0:
            compression = _LZ4_TYPE
            _put_varint(data, begin, size)
            _memcpy(data.ctypes.data + begin + varint_size, scratch_address, compressed_size)
            size = varint_size + compressed_size
    data[np.uint64(begin + size)] = compression
    crc = np.int64(_crc32c(np.uint32(0), data.ctypes.data + begin, size + 1))
    _put_fixed32(data, begin + size + 1, ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
    return size


@compiled
def _shortest_separator(
    last_key: Bytes, last_key_size: Long, data: Bytes, key_begin: Long, key_size: Long, shared_size: Long
) -> tuple[Long, Long]:
    """Find the shortest separator: at least the last key of a block, and less than the first key of the next one.

    The two keys have a common prefix of `shared_size` bytes. The separator is either a prefix of the last key, with the
    last byte of the prefix raised by one, or the whole last key. Returns its size, and by how much the last byte is
    raised: 1 or 0 (`BytewiseComparatorImpl::FindShortestSeparator`).
    """
    if shared_size < min(last_key_size, key_size):
        if shared_size < key_size - 1 or last_key[shared_size] + 1 < data[key_begin + shared_size]:
            return shared_size + 1, np.int64(1)
        for i in range(shared_size + 1, last_key_size):
            if last_key[i] < 0xFF:
                return i + 1, np.int64(1)
    return last_key_size, np.int64(0)


@compiled
def finish_block(
    numbers: Longs,
    last_key: Bytes,
    separator_size: Long,
    increment: Long,
    out: Bytes,
    scratch: Bytes,
    lz4: Longs,
    restarts: Longs,
    index: Bytes,
    index_restarts: Longs,
) -> None:
    """Finish the current block, and add it to the index.

    The separator of the block is `last_key[:separator_size]`, with the last byte raised by `increment`.
    """
    begin, at = numbers[BLOCK_BEGIN], numbers[OUT_SIZE]
    for i in range(numbers[BLOCK_RESTARTS]):
        at = _put_fixed32(out, at, restarts[i])
    at = _put_fixed32(out, at, numbers[BLOCK_RESTARTS])
    size = seal_block(out, begin, at - begin, scratch, lz4)
    index_size = numbers[INDEX_SIZE]
    index_restarts[numbers[BLOCKS]] = index_size
    index_size = _put_varint(index, index_size, np.int64(0))
    index_size = _put_varint(index, index_size, separator_size)
    _memcpy(index.ctypes.data + index_size, last_key.ctypes.data, separator_size)
    index_size += separator_size
    index[index_size - 1] += increment
    index_size = _put_varint(index, index_size, numbers[OUT_OFFSET] + begin)
    numbers[INDEX_SIZE] = _put_varint(index, index_size, size)
    numbers[BLOCKS] += 1
    numbers[OUT_SIZE] = numbers[BLOCK_BEGIN] = begin + size + TRAILER_SIZE
    numbers[BLOCK_ROWS] = numbers[BLOCK_RESTARTS] = 0


@compiled
def put_rows(
    data: Bytes,
    key_begins: Longs,
    key_ends: Longs,
    value_begins: Longs,
    value_ends: Longs,
    kinds: Bytes,
    order: Longs,
    first_index: int,
    limit_bytes: int,
    numbers: Longs,
    last_key: Bytes,
    out: Bytes,
    scratch: Bytes,
    lz4: Longs,
    restarts: Longs,
    index: Bytes,
    index_restarts: Longs,
) -> tuple[Long, int]:
    """Put the rows `order[first_index:]` into blocks of a file, until it has `limit_bytes` bytes of keys and values.

    `last_key[:numbers[LAST_KEY_SIZE]]` is the key of the previous row. If `kinds` is empty, all rows are values.
    Returns the index in `order` of the next row, and why the loop ended (`DONE`, `NO_ROOM`, `FULL`, `OUT_OF_ORDER`).
    """
    data_address, out_address = data.ctypes.data, out.ctypes.data
    for next_index in range(first_index, len(order)):
        if numbers[KEY_BYTES] + numbers[VALUE_BYTES] >= limit_bytes:
            return next_index, FULL
        row = order[next_index]
        key_begin, value_begin = key_begins[row], value_begins[row]
        key_size, value_size = key_ends[row] - key_begin, value_ends[row] - value_begin
        last_key_size = numbers[LAST_KEY_SIZE]
        if (
            key_size > len(last_key)
            or last_key_size + INDEX_OVERHEAD_BYTES > len(index) - numbers[INDEX_SIZE]
            or numbers[BLOCKS] == len(index_restarts)
        ):
            return next_index, NO_ROOM
        shared_size, shorter_size = np.int64(0), min(key_size, last_key_size)
        while (
            shared_size < shorter_size and last_key[np.uint64(shared_size)] == data[np.uint64(key_begin + shared_size)]
        ):
            shared_size += 1
        if last_key_size >= 0 and (
            shared_size == key_size
            or (
                shared_size < last_key_size
                and data[np.uint64(key_begin + shared_size)] < last_key[np.uint64(shared_size)]
            )
        ):
            return next_index, OUT_OF_ORDER

        is_restart = numbers[BLOCK_ROWS] % _RESTART_INTERVAL == 0
        if numbers[BLOCK_ROWS]:
            size = numbers[OUT_SIZE] - numbers[BLOCK_BEGIN] + 4 * numbers[BLOCK_RESTARTS] + 4
            size_after = size + key_size + KEY_TRAILER_SIZE + value_size + 4 + (4 if is_restart else 0)
            size_after += _varint_size(key_size + KEY_TRAILER_SIZE) + _varint_size(value_size)
            if size >= BLOCK_SIZE or (size_after > BLOCK_SIZE and size > _NEARLY_FULL_BYTES):
                separator_size, increment = _shortest_separator(
                    last_key, last_key_size, data, key_begin, key_size, shared_size
                )
                finish_block(
                    numbers, last_key, separator_size, increment, out, scratch, lz4, restarts, index, index_restarts
                )
                is_restart = True
        if key_size + value_size + ROW_OVERHEAD_BYTES > len(out) - numbers[OUT_SIZE]:
            return next_index, NO_ROOM

        if is_restart:
            restarts[numbers[BLOCK_RESTARTS]] = numbers[OUT_SIZE] - numbers[BLOCK_BEGIN]
            numbers[BLOCK_RESTARTS] += 1
            shared_internal_size = np.int64(0)
        elif shared_size == last_key_size:
            shared_internal_size = _shared_with_trailer(
                data, key_begin, key_size, last_key_size, numbers[SEQUENCE] << 8 | numbers[LAST_KIND]
            )
        else:
            shared_internal_size = shared_size
        end = _put_varint(out, numbers[OUT_SIZE], shared_internal_size)
        end = _put_varint(out, end, key_size + KEY_TRAILER_SIZE - shared_internal_size)
        end = _put_varint(out, end, value_size)
        _memcpy(out_address + end, data_address + key_begin + shared_internal_size, key_size - shared_internal_size)
        end += key_size - shared_internal_size
        kind = np.int64(kinds[row]) if len(kinds) else np.int64(VALUE)
        trailer = numbers[SEQUENCE] << 8 | kind
        for i in range(KEY_TRAILER_SIZE):
            out[np.uint64(end + i)] = trailer >> 8 * i & 0xFF
        end += KEY_TRAILER_SIZE
        _memcpy(out_address + end, data_address + value_begin, value_size)
        numbers[OUT_SIZE] = end + value_size
        _memcpy(last_key.ctypes.data, data_address + key_begin, key_size)
        numbers[LAST_KEY_SIZE] = key_size
        numbers[BLOCK_ROWS] += 1
        numbers[ROWS] += 1
        numbers[DELETES] += kind == DELETION
        numbers[LAST_KIND] = kind
        numbers[KEY_BYTES] += key_size
        numbers[VALUE_BYTES] += value_size
    return np.int64(len(order)), DONE


@compiled
def _shared_with_trailer(data: Bytes, key_begin: Long, key_size: Long, last_key_size: Long, trailer: Long) -> Long:
    """Return how many bytes a key shares with the previous internal key, whose user key is a prefix of the key."""
    shared_internal_size = last_key_size
    while shared_internal_size < key_size and shared_internal_size < last_key_size + KEY_TRAILER_SIZE:
        if data[key_begin + shared_internal_size] != trailer >> 8 * (shared_internal_size - last_key_size) & 0xFF:
            break
        shared_internal_size += 1
    return shared_internal_size
