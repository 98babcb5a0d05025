"""Sorts cells (key group and state) that do not fit into memory, for a writer that needs records in the order of keys.

The writer itself sorts a cell that fits into memory. Of a larger cell, as many blocks as fit are sorted at once, and
the sorted runs are merged.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rescale.execution.rekeying.sorted_blocks import SortedBlocks
from rescale.execution.writers import windows
from rescale.flink.arrays import Bytes, Longs
from rescale.flink.keyed.blocks.record_places import record_places


def in_key_order(blocks: SortedBlocks) -> SortedBlocks:
    """Return blocks with the same records; cells too large for memory are sorted into new blocks of the buffer."""
    first_block_indices, sizes = windows.cells(blocks)
    ends = np.append(first_block_indices[1:], len(blocks))
    parts, next_block = [], 0
    for large_cell in np.flatnonzero(sizes > windows.CELL_BYTES).tolist():
        begin, end = int(first_block_indices[large_cell]), int(ends[large_cell])
        cell = blocks.part(begin, end)
        runs = [_sort_run(cell.part(*window)) for window in windows.windows(cell, windows.CELL_BYTES)]
        parts += [blocks.part(next_block, begin), _merge_runs(_concatenate(cell, runs))]
        next_block = end
    return _concatenate(blocks, [*parts, blocks.part(next_block, len(blocks))])


def _sort_run(blocks: SortedBlocks) -> SortedBlocks:
    from rescale.execution.rekeying.key_order_loop import put_records
    from rescale.flink.keyed.blocks.key_sort_loop import sort_keys

    data, begins = blocks.load(0, len(blocks))
    places = record_places(data, begins, begins + blocks.sizes)
    order = np.empty(len(places.key_starts), np.int64)
    borders = np.array([0, len(order)])
    sort_keys(data, places.key_starts, places.key_ends, borders, order, np.empty(len(order), np.uint64))
    out = np.empty(int(blocks.sizes.sum()), np.uint8)
    put_records(data, places.key_starts, places.ends, order, out)
    last_offset = len(out) - int(places.ends[order[-1]] - places.key_starts[order[-1]]) - 4
    sizes, last_offsets, positions = (
        np.array([number], np.int64) for number in (len(out), last_offset, blocks.buffer.append(out.data))
    )
    return SortedBlocks(blocks.number_of_states, blocks.cells[:1], sizes, last_offsets, positions, blocks.buffer)


def _merge_runs(cell: SortedBlocks) -> SortedBlocks:
    merged_windows = [
        (len(data), last_offset, cell.buffer.append(data.data)) for data, last_offset in _merged_windows(cell)
    ]
    sizes, last_offsets, positions = (np.array(column, np.int64) for column in zip(*merged_windows, strict=True))
    return SortedBlocks(
        cell.number_of_states, np.full(len(merged_windows), cell.cells[0]), sizes, last_offsets, positions, cell.buffer
    )


def _merged_windows(cell: SortedBlocks) -> Iterator[tuple[Bytes, int]]:
    """Yield windows of the merged runs as (bytes, offset of the last record); each window overwrites the one before."""
    from rescale.execution.rekeying import key_order_loop as loop

    bytes_read = np.zeros(len(cell), np.int64)
    bytes_per_run = max(windows.WINDOW_BYTES // len(cell), 1)
    out = np.empty(windows.WINDOW_BYTES, np.uint8)
    while (bytes_read < cell.sizes).any():
        sizes = np.minimum(cell.sizes - bytes_read, bytes_per_run)
        data, positions = cell.buffer.load(cell.positions + bytes_read, sizes)
        begins, positions = positions, positions.copy()
        unloaded_sizes = cell.sizes - bytes_read - sizes
        size, last_offset, run_to_load = loop.merge_runs(data, positions, begins + sizes, unloaded_sizes, out)
        bytes_read += positions - begins
        if size:
            yield out[:size], last_offset
        elif run_to_load >= 0:
            bytes_per_run *= 2
        else:
            out = np.empty(2 * len(out), np.uint8)


def _concatenate(blocks: SortedBlocks, parts: list[SortedBlocks]) -> SortedBlocks:
    if not parts:
        return blocks

    def column(name: str) -> Longs:
        return np.concatenate([getattr(part, name) for part in parts])

    return SortedBlocks(
        blocks.number_of_states,
        column("cells"),
        column("sizes"),
        column("last_offsets"),
        column("positions"),
        blocks.buffer,
    )
