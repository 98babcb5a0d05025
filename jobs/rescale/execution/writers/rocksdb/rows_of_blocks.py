"""Blocks as the rows that RocksDB takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from rescale.execution.writers.protocol import Blocks
from rescale.execution.writers.windows import windows
from rescale.flink.arrays import Bytes, Longs
from rescale.rocksdb.engine.table_writer import Rows


def rows_of_blocks(blocks: Blocks) -> Iterator[tuple[int, Rows]]:
    """(state id, rows) in the order of the blocks: for each state, in that of its keys."""
    for first, last in windows(blocks):
        data, starts = blocks.load(first, last)
        by_state: dict[int, list[int]] = defaultdict(list)
        for i, slot in enumerate(blocks.slots[first:last].tolist()):
            by_state[slot % blocks.number_of_states].append(i)
        sizes = blocks.sizes[first:last]
        for state, numbers in sorted(by_state.items()):
            yield state, _rows(data, starts[numbers], sizes[numbers])


def _rows(data: Bytes, starts: Longs, sizes: Longs) -> Rows:
    from rescale.flink.keyed.block_loop import count_records, find_records

    places = list(zip(starts.tolist(), (starts + sizes).tolist(), strict=True))
    count = sum(count_records(data, begin, end) for begin, end in places)
    keys, limits, ends = (np.empty(count, np.int64) for _ in range(3))
    at = 0
    for begin, end in places:
        at = find_records(data, begin, end, at, keys, limits, ends)
    return Rows(data, keys, limits, limits + 4, ends)
