"""Frames sorted blocks as canonical key groups (`FullSnapshotAsyncWriter`), a bounded number of bytes at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from rescale.execution.writers.protocol import Blocks
from rescale.flink.arrays import Longs
from rescale.flink.keyed.blocks.record_marks import END_OF_GROUP, ID_SIZE

PIECE_BYTES = 8 * 1024 * 1024


def framed_lengths(sizes: Longs) -> Longs:
    """Return the size in bytes of each framed key group; 0 without records.

    A framed key group has a state id in front of its records, and an id after the last record of each state. `sizes`
    has the sizes of the records: a row for each key group, a column for each state.
    """
    filled_states = (sizes > 0).sum(axis=1)
    lengths: Longs = sizes.sum(axis=1) + np.where(filled_states, (filled_states + 1) * ID_SIZE, 0)
    return lengths


def framed(blocks: Blocks) -> Iterator[memoryview]:
    """Yield the key groups of the blocks in pieces of about `PIECE_BYTES`; each piece is overwritten by the next."""
    from rescale.execution.writers.canonical import framing_loop

    cells = blocks.cells
    groups, states = cells // blocks.number_of_states, cells % blocks.number_of_states
    group_changes = np.diff(groups) != 0
    begins_group, ends_group = np.append(True, group_changes), np.append(group_changes, True)
    ends_state = np.append(np.diff(cells) != 0, True)
    first_ids = np.where(begins_group, states, -1)
    marks = np.where(ends_state, np.where(ends_group, END_OF_GROUP, np.append(states[1:], 0)), -1)
    framed_ends = np.cumsum(blocks.sizes + ID_SIZE * begins_group + ID_SIZE * ends_state)
    out = np.empty(0, np.uint8)
    begin, written_bytes = 0, 0
    while begin < len(blocks):
        end = max(begin + 1, int(np.searchsorted(framed_ends, written_bytes + PIECE_BYTES, side="right")))
        block_slice = slice(begin, end)
        size = int(framed_ends[end - 1]) - written_bytes
        if size > len(out):
            out = np.empty(max(size, PIECE_BYTES), np.uint8)
        data, starts = blocks.load(begin, end)
        sizes, last_offsets = blocks.sizes[block_slice], blocks.last_offsets[block_slice]
        framing_loop.frame_blocks(data, starts, sizes, last_offsets, first_ids[block_slice], marks[block_slice], out)
        yield out[:size].data
        begin, written_bytes = end, written_bytes + size


def blocks_by_key_group(blocks: Blocks) -> Iterator[tuple[int, Blocks]]:
    """Yield (key group, its blocks) for each key group that has any."""
    groups = blocks.cells // blocks.number_of_states
    borders = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(blocks)]
    for begin, end in pairwise(borders):
        if end > begin:
            yield int(groups[begin]), blocks.part(begin, end)
