"""The loop that counts different hashes of keys; compiled, so its module is loaded late."""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import Codes, Longs
from rescale.flink.compiled import compiled


@compiled
def count_distinct(codes: Codes, table: Longs, count: int, most: int) -> int:
    """`count` plus the number of codes that are not in `table` yet, up to `most`; they are then.

    The table has a power of two of places, over twice as many as `most`, and -1 where it is empty.
    """
    mask = len(table) - 1
    for code in codes:
        if count >= most:
            break
        key = np.int64(code) & 0xFFFFFFFF
        place = key * 0x9E3779B1 >> 8 & mask
        while table[place] != -1 and table[place] != key:
            place = place + 1 & mask
        if table[place] == -1:
            table[place] = key
            count += 1
    return count
