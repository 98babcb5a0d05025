"""Conversion of blocks to the rows that RocksDB's writer takes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rescale.execution.writers.protocol import Blocks
from rescale.execution.writers.windows import windows_of_slots
from rescale.flink.arrays import Longs
from rescale.flink.keyed.blocks.record_places import records_of_blocks
from rescale.rocksdb.engine.table_writer import Rows


def changes_of_blocks(blocks: Blocks) -> Iterator[tuple[Rows, Longs]]:
    """Yield the rows of blocks of changes (`change_records`), whose values begin with the kind of the row."""
    for rows, order in rows_of_blocks(blocks):
        kinds = rows.data[rows.value_begins]
        yield rows._replace(value_begins=rows.value_begins + 1, kinds=kinds), order


def rows_of_blocks(blocks: Blocks) -> Iterator[tuple[Rows, Longs]]:
    """Yield the records of one state, a bounded number of bytes at a time, with the order of the rows by key.

    Keys begin with their key groups, so sorting the rows of several slots keeps the slots in order. Slots that are too
    large to be loaded at once must be sorted already.
    """
    from rescale.flink.keyed.blocks.key_sort_loop import sort_keys

    for first, last in windows_of_slots(blocks):
        data, starts = blocks.load(first, last)
        records = records_of_blocks(data, starts, starts + blocks.sizes[first:last])
        order = np.empty(len(records.starts), np.int64)
        sort_keys(data, records.starts, records.limits, order, np.empty(len(order), np.uint64))
        yield Rows(data, records.starts, records.limits, records.limits + 4, records.ends), order
