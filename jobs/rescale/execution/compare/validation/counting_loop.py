"""Loop that counts distinct hashes of keys; compiled, so its module is loaded only when needed."""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import HashCodes, Longs
from rescale.flink.compiled import compiled


@compiled
def count_distinct(codes: HashCodes, hash_table: Longs, distinct_count: int, most_keys: int) -> int:
    """Add `codes`, which are hashes of keys, to the hash table `hash_table`.

    Returns `distinct_count` plus the number of codes that were not in the table, up to `most_keys`. The length of the
    table is a power of two and more than twice `most_keys`; empty entries hold -1.
    """
    mask = len(hash_table) - 1
    for code in codes:
        if distinct_count >= most_keys:
            break
        key = np.int64(code) & 0xFFFFFFFF
        index = key * 0x9E3779B1 >> 8 & mask
        while hash_table[index] != -1 and hash_table[index] != key:
            index = index + 1 & mask
        if hash_table[index] == -1:
            hash_table[index] = key
            distinct_count += 1
    return distinct_count
