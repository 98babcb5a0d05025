"""Loop that sorts records into blocks; compiled, so its module is loaded only when needed."""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import Bytes, Longs
from rescale.flink.compiled import compiled, copy_bytes
from rescale.flink.keyed.blocks.record_marks import LENGTH_SIZE


@compiled
def sort_records(
    data: Bytes,
    key_starts: Longs,
    key_ends: Longs,
    ends: Longs,
    groups: Longs,
    cells: Longs,
    prefix_length: int,
    cell_ends: Longs,
    last_offsets: Longs,
    out: Bytes,
) -> None:
    """Write the records into `out` by key group, then state, each with its new key group in front of its key.

    `cell_ends` and `last_offsets` have an element for every cell; the loop sets where the cell's records end, and
    where its last record begins.
    """
    cell_ends[:] = 0
    for i in range(len(cells)):
        cell_ends[cells[i]] += LENGTH_SIZE + prefix_length + ends[i] - key_starts[i]
    offset = np.int64(0)
    for cell in range(len(cell_ends)):
        size = cell_ends[cell]
        cell_ends[cell] = offset
        offset += size
    for i in range(len(cells)):
        at = cell_ends[cells[i]]
        last_offsets[cells[i]] = at
        key_size = prefix_length + key_ends[i] - key_starts[i]
        out[at], out[at + 1], out[at + 2], out[at + 3] = (
            key_size >> 24 & 0xFF,
            key_size >> 16 & 0xFF,
            key_size >> 8 & 0xFF,
            key_size & 0xFF,
        )
        if prefix_length == 2:
            out[at + LENGTH_SIZE] = groups[i] >> 8
        out[at + LENGTH_SIZE + prefix_length - 1] = groups[i] & 0xFF
        cell_ends[cells[i]] = copy_bytes(data, key_starts[i], ends[i], out, at + LENGTH_SIZE + prefix_length)
