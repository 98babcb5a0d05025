"""Loop that counts distinct hashes of keys; compiled, so its module is loaded only when needed."""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import Codes, Longs
from rescale.flink.compiled import compiled


@compiled
def count_distinct(codes: Codes, table: Longs, count: int, limit: int) -> int:
    """Add `codes`, which are hashes of keys, to the hash table `table`.

    Returns `count` plus the number of codes that were not in the table, up to `limit`. The length of the table is a
    power of two and more than twice `limit`; empty entries hold -1.
    """
    mask = len(table) - 1
    for code in codes:
        if count >= limit:
            break
        key = np.int64(code) & 0xFFFFFFFF
        index = key * 0x9E3779B1 >> 8 & mask
        while table[index] != -1 and table[index] != key:
            index = index + 1 & mask
        if table[index] == -1:
            table[index] = key
            count += 1
    return count
