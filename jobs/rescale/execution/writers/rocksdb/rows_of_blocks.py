"""Blocks as the rows that RocksDB takes."""

from __future__ import annotations

from collections.abc import Iterator

from rescale.execution.writers.protocol import Blocks
from rescale.execution.writers.windows import windows
from rescale.flink.keyed.record_places import records_of_blocks
from rescale.rocksdb.engine.table_writer import Rows


def rows_of_blocks(blocks: Blocks) -> Iterator[Rows]:
    """All records in their order, a bounded number of bytes at a time."""
    for first, last in windows(blocks):
        data, starts = blocks.load(first, last)
        found = records_of_blocks(data, starts, starts + blocks.sizes[first:last])
        yield Rows(data, found.starts, found.limits, found.limits + 4, found.ends)
