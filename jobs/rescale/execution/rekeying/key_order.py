"""Blocks for a writer that wants the records of a key group and state by the bytes of their keys.

Records are sorted in every batch already (`BlockSorter`); what is left to do here is to make one sequence of a slot's
blocks. As many as fit into memory are sorted at once; the runs that come of it, seldom more than one, are merged.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from rescale.execution.rekeying.sorted_blocks import SortedBlocks
from rescale.flink.arrays import Bytes, Longs

MEMORY = 64 * 1024 * 1024
WINDOW = 8 * 1024 * 1024


def in_key_order(blocks: SortedBlocks) -> SortedBlocks:
    """The same records in other blocks, whose bytes are put into the buffer, too."""
    borders = [0, *(np.flatnonzero(np.diff(blocks.slots)) + 1).tolist(), len(blocks)]
    found: list[SortedBlocks] = []
    for first, last in pairwise(borders):
        slot = blocks.part(first, last)
        found.append(slot if len(slot) < 2 else _merged(_runs(slot)))
    return _joined(blocks, found)


def _runs(slot: SortedBlocks) -> SortedBlocks:
    """Of the blocks of a slot, fewer ones: each made of neighbours that fit into memory together."""
    made = []
    first = 0
    behind = np.cumsum(slot.sizes)
    while first < len(slot):
        before = int(behind[first]) - int(slot.sizes[first])
        last = max(first + 1, int(np.searchsorted(behind, before + MEMORY, side="right")))
        made.append(_sorted(slot.part(first, last)))
        first = last
    return _joined(slot, made)


def _sorted(slot: SortedBlocks) -> SortedBlocks:
    from rescale.execution.rekeying import key_order_loop as loop
    from rescale.flink.keyed.block_loop import count_records, find_records

    if len(slot) < 2:
        return slot
    data, begins = slot.load(0, len(slot))
    blocks = list(zip(begins.tolist(), (begins + slot.sizes).tolist(), strict=True))
    count = sum(count_records(data, begin, end) for begin, end in blocks)
    starts, limits, ends, order, spare = (np.empty(count, np.int64) for _ in range(5))
    at = 0
    for begin, end in blocks:
        at = find_records(data, begin, end, at, starts, limits, ends)
    loop.order_by_key(data, starts, limits, order, spare)
    out = np.empty(int(slot.sizes.sum()), np.uint8)
    last = loop.put_records(data, starts, ends, order, out)
    return _appended(slot, [(out, last)])


def _merged(slot: SortedBlocks) -> SortedBlocks:
    return slot if len(slot) < 2 else _appended(slot, _windows(slot))


def _windows(slot: SortedBlocks) -> Iterator[tuple[Bytes, int]]:
    """(bytes, where the last record begins) of all records of some sorted runs; overwritten by the next one."""
    from rescale.execution.rekeying import key_order_loop as loop

    taken = np.zeros(len(slot), np.int64)
    room = max(WINDOW // len(slot), 1)
    out = np.empty(WINDOW, np.uint8)
    while (taken < slot.sizes).any():
        sizes = np.minimum(slot.sizes - taken, room)
        data, at = slot.buffer.load(slot.places + taken, sizes)
        begins, at = at, at.copy()
        size, last, hungry = loop.merge_runs(data, at, begins + sizes, out)
        taken += at - begins
        if size:
            yield out[:size], last
        elif hungry >= 0:
            room *= 2
        else:
            out = np.empty(2 * len(out), np.uint8)


def _appended(slot: SortedBlocks, pieces: Iterator[tuple[Bytes, int]] | list[tuple[Bytes, int]]) -> SortedBlocks:
    """Blocks of one slot, put into the buffer."""
    found = [(len(data), last, slot.buffer.append(data.data)) for data, last in pieces]
    sizes, lasts, places = (np.array(column, np.int64) for column in zip(*found, strict=True))
    return SortedBlocks(slot.number_of_states, np.full(len(found), slot.slots[0]), sizes, lasts, places, slot.buffer)


def _joined(blocks: SortedBlocks, parts: list[SortedBlocks]) -> SortedBlocks:
    if not parts:
        return blocks

    def column(name: str) -> Longs:
        return np.concatenate([getattr(part, name) for part in parts])

    return SortedBlocks(
        blocks.number_of_states, column("slots"), column("sizes"), column("lasts"), column("places"), blocks.buffer
    )
