"""Windows of blocks: runs of a bounded number of bytes that are loaded together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rescale.execution.writers.protocol import Blocks
from rescale.flink.arrays import Longs

WINDOW_BYTES = 8 * 1024 * 1024
"""Bytes of blocks that are loaded at once, by default."""

CELL_BYTES = 32 * 1024 * 1024
"""Bytes of a cell that are loaded at once to be sorted."""


def windows(blocks: Blocks, window_bytes: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of the blocks of each window of at most `window_bytes` bytes (default: `WINDOW_BYTES`).

    A block larger than this is a window of its own.
    """
    yield from _bounded_runs(blocks.sizes, WINDOW_BYTES if window_bytes is None else window_bytes)


def windows_of_cells(blocks: Blocks) -> Iterator[tuple[int, int]]:
    """Yield windows of as many whole cells as fit into `CELL_BYTES`; a larger cell is split as by `windows`."""
    first_block_indices, sizes = cells(blocks)
    ends = np.append(first_block_indices[1:], len(blocks))
    for first_cell, end_cell in _bounded_runs(sizes, CELL_BYTES):
        begin, end = int(first_block_indices[first_cell]), int(ends[end_cell - 1])
        if int(sizes[first_cell]) <= CELL_BYTES:
            yield begin, end
        else:
            yield from ((begin + start, begin + stop) for start, stop in windows(blocks.part(begin, end)))


def cells(blocks: Blocks) -> tuple[Longs, Longs]:
    """Return the index of the first block of each cell, and the bytes of all blocks of each cell."""
    first_block_indices = np.flatnonzero(np.diff(blocks.cells, prepend=-1))
    if not len(first_block_indices):
        return first_block_indices, first_block_indices
    return first_block_indices, np.add.reduceat(blocks.sizes, first_block_indices)


def _bounded_runs(sizes: Longs, limit: int) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of runs of sizes that add up to at most `limit`, or of one larger size."""
    ends = np.cumsum(sizes)
    begin = 0
    while begin < len(sizes):
        bytes_before = int(ends[begin]) - int(sizes[begin])
        end = max(begin + 1, int(np.searchsorted(ends, bytes_before + limit, side="right")))
        yield begin, end
        begin = end
