"""Blocks as the rows that RocksDB takes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rescale.execution.writers.protocol import Blocks
from rescale.execution.writers.windows import windows_of_slots
from rescale.flink.arrays import Longs
from rescale.flink.keyed.blocks.record_places import records_of_blocks
from rescale.rocksdb.engine.table_writer import Rows


def rows_of_blocks(blocks: Blocks) -> Iterator[tuple[Rows, Longs]]:
    """The records of one state, a bounded number of bytes at a time, and the numbers of the rows by their keys.

    Key groups stand in front of the keys, so rows of several slots are in the order of these. Slots that are larger
    must be in order already.
    """
    from rescale.flink.keyed.blocks.key_sort_loop import sort_keys

    for first, last in windows_of_slots(blocks):
        data, starts = blocks.load(first, last)
        found = records_of_blocks(data, starts, starts + blocks.sizes[first:last])
        order = np.empty(len(found.starts), np.int64)
        sort_keys(data, found.starts, found.limits, order, np.empty(len(order), np.uint64))
        yield Rows(data, found.starts, found.limits, found.limits + 4, found.ends), order
