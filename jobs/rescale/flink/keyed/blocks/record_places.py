"""Offsets of the records in blocks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rescale.flink.arrays import Bytes, Longs


class RecordPlaces(NamedTuple):
    """Offsets of records (int64): record i, in block `block_indices[i]`, has the key `data[key_starts[i]:key_ends[i]]`.

    The record begins with the key's length, four bytes before its key, and ends with its value at `ends[i]`.
    """

    key_starts: Longs
    key_ends: Longs
    ends: Longs
    block_indices: Longs


def record_places(data: Bytes, begins: Longs, ends: Longs) -> RecordPlaces:
    """Return the offsets of the records in the blocks `data[begins[i]:ends[i]]`, in order."""
    from rescale.flink.keyed.blocks.block_loop import count_all_records, find_all_records

    counts = np.empty(len(begins), np.int64)
    count_all_records(data, begins, ends, counts)
    key_starts, key_ends, record_ends = (np.empty(int(counts.sum()), np.int64) for _ in range(3))
    find_all_records(data, begins, ends, key_starts, key_ends, record_ends)
    return RecordPlaces(key_starts, key_ends, record_ends, np.repeat(np.arange(len(begins)), counts))
