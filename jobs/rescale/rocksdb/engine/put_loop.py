"""The loop that hands rows to RocksDB, compiled as those of `row_loop`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from rescale.flink.arrays import Bytes, Longs
from rescale.flink.compiled import Long, compiled

_rocksdb_sstfilewriter_put: Any = types.ExternalFunction(
    "rocksdb_sstfilewriter_put",
    types.void(types.int64, types.int64, types.int64, types.int64, types.int64, types.int64),
)


@compiled
def put_rows(
    writer: int,
    data: Bytes,
    key_begins: Longs,
    key_ends: Longs,
    value_begins: Longs,
    value_ends: Longs,
    order: Longs,
    first: int,
    size: int,
    limit: int,
    error: Longs,
) -> tuple[Long, Long]:
    """Puts the rows `order[first:]`, until there are `limit` bytes of keys and values or more, `size` to begin with.

    `error` has one element, where RocksDB puts the address of a text. Returns the place of the row that comes next,
    which is the one that was refused if there is an error, and the bytes so far.
    """
    base, slot = data.ctypes.data, error.ctypes.data
    at, filled = np.int64(first), np.int64(size)
    while at < len(order) and filled < limit:
        row = order[at]
        key, value = key_begins[row], value_begins[row]
        key_size, value_size = key_ends[row] - key, value_ends[row] - value
        _rocksdb_sstfilewriter_put(writer, base + key, key_size, base + value, value_size, slot)
        if error[0] != 0:
            return at, filled
        filled += key_size + value_size
        at += 1
    return at, filled
