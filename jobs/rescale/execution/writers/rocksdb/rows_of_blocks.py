"""Blocks as the rows that RocksDB takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from rescale.execution.writers.protocol import Blocks
from rescale.execution.writers.windows import windows
from rescale.flink.arrays import Bytes, Longs
from rescale.flink.keyed.record_places import records_of_blocks
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


def _rows(data: Bytes, begins: Longs, sizes: Longs) -> Rows:
    found = records_of_blocks(data, begins, begins + sizes)
    return Rows(data, found.starts, found.limits, found.limits + 4, found.ends)
