"""The loop that copies rows from an iterator of RocksDB into a buffer; compiled, so its module is loaded late.

It calls RocksDB by the names of its functions, which `library` has made known, so that the compiled loop can be kept
for the processes that follow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from rescale.flink.compiled import Long, compiled

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]

_rocksdb_iter_valid: Any = types.ExternalFunction("rocksdb_iter_valid", types.uint8(types.int64))
_rocksdb_iter_next: Any = types.ExternalFunction("rocksdb_iter_next", types.void(types.int64))
_rocksdb_iter_key: Any = types.ExternalFunction("rocksdb_iter_key", types.int64(types.int64, types.int64))
_rocksdb_iter_value: Any = types.ExternalFunction("rocksdb_iter_value", types.int64(types.int64, types.int64))
_memcpy: Any = types.ExternalFunction("memcpy", types.int64(types.int64, types.int64, types.int64))


@compiled
def copy_rows(
    iterator: int,
    prefix: int,
    data: Bytes,
    length: Longs,
    starts: Longs,
    limits: Longs,
    ends: Longs,
    groups: Longs,
) -> tuple[int, Long]:
    """Copies rows as key, length of the value in four bytes, value, until there are no more, or no room for more.

    `length` has one element, where RocksDB puts a length. Returns the number of rows, and the bytes that the next one
    needs; -1 for a key without a key group.
    """
    base, slot = data.ctypes.data, length.ctypes.data
    at, count = np.int64(0), 0
    while count < len(starts) and _rocksdb_iter_valid(iterator):
        key = _rocksdb_iter_key(iterator, slot)
        key_length = length[0]
        value = _rocksdb_iter_value(iterator, slot)
        value_length = length[0]
        if key_length < prefix:
            return count, np.int64(-1)
        if key_length + 4 + value_length > len(data) - at:
            return count, key_length + 4 + value_length
        _memcpy(base + at, key, key_length)
        group = np.int64(data[at])
        if prefix == 2:
            group = group << 8 | np.int64(data[at + 1])
        starts[count] = at + prefix
        at += key_length
        limits[count] = at
        data[at] = value_length >> 24 & 0xFF
        data[at + 1] = value_length >> 16 & 0xFF
        data[at + 2] = value_length >> 8 & 0xFF
        data[at + 3] = value_length & 0xFF
        _memcpy(base + at + 4, value, value_length)
        at += 4 + value_length
        ends[count] = at
        groups[count] = group
        count += 1
        _rocksdb_iter_next(iterator)
    return count, np.int64(0)
