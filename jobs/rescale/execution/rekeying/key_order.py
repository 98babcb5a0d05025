"""External sort of slots that do not fit into memory, for a writer that wants records by the bytes of their keys.

The writer itself sorts a slot that fits when it loads it. For a larger slot, as many blocks as fit are sorted at once,
and the sorted runs are merged.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rescale.execution.rekeying.sorted_blocks import SortedBlocks
from rescale.execution.writers import windows
from rescale.flink.arrays import Bytes, Longs
from rescale.flink.keyed.blocks.record_places import records_of_blocks

WINDOW = 8 * 1024 * 1024


def in_key_order(blocks: SortedBlocks) -> SortedBlocks:
    """Return the same records; slots that are too large are sorted into new blocks, stored in the buffer."""
    firsts, sizes = windows.slots(blocks)
    behind = np.append(firsts[1:], len(blocks))
    parts, at = [], 0
    for large in np.flatnonzero(sizes > windows.SLOT_MEMORY).tolist():
        first, last = int(firsts[large]), int(behind[large])
        slot = blocks.part(first, last)
        runs = [_sorted(slot.part(*window)) for window in windows.windows(slot, windows.SLOT_MEMORY)]
        parts += [blocks.part(at, first), _merged(_joined(slot, runs))]
        at = last
    return _joined(blocks, [*parts, blocks.part(at, len(blocks))])


def _sorted(blocks: SortedBlocks) -> SortedBlocks:
    """Sort the records of some blocks of one slot into one block."""
    from rescale.execution.rekeying.key_order_loop import put_records
    from rescale.flink.keyed.blocks.key_sort_loop import sort_keys

    data, begins = blocks.load(0, len(blocks))
    records = records_of_blocks(data, begins, begins + blocks.sizes)
    order = np.empty(len(records.starts), np.int64)
    sort_keys(data, records.starts, records.limits, order, np.empty(len(order), np.uint64))
    out = np.empty(int(blocks.sizes.sum()), np.uint8)
    put_records(data, records.starts, records.ends, order, out)
    last = len(out) - int(records.ends[order[-1]] - records.starts[order[-1]]) - 4
    sizes, lasts, places = (np.array([number], np.int64) for number in (len(out), last, blocks.buffer.append(out.data)))
    return SortedBlocks(blocks.number_of_states, blocks.slots[:1], sizes, lasts, places, blocks.buffer)


def _merged(slot: SortedBlocks) -> SortedBlocks:
    """Return the merged blocks of the sorted runs of a slot."""
    merged = [(len(data), last, slot.buffer.append(data.data)) for data, last in _windows(slot)]
    sizes, lasts, places = (np.array(column, np.int64) for column in zip(*merged, strict=True))
    return SortedBlocks(slot.number_of_states, np.full(len(merged), slot.slots[0]), sizes, lasts, places, slot.buffer)


def _windows(slot: SortedBlocks) -> Iterator[tuple[Bytes, int]]:
    """Yield (bytes, where the last record begins) of the merged runs, a window at a time; the next overwrites it."""
    from rescale.execution.rekeying import key_order_loop as loop

    taken = np.zeros(len(slot), np.int64)
    room = max(WINDOW // len(slot), 1)
    out = np.empty(WINDOW, np.uint8)
    while (taken < slot.sizes).any():
        sizes = np.minimum(slot.sizes - taken, room)
        data, at = slot.buffer.load(slot.places + taken, sizes)
        begins, at = at, at.copy()
        left = slot.sizes - taken - sizes
        size, last, hungry = loop.merge_runs(data, at, begins + sizes, left, out)
        taken += at - begins
        if size:
            yield out[:size], last
        elif hungry >= 0:
            room *= 2
        else:
            out = np.empty(2 * len(out), np.uint8)


def _joined(blocks: SortedBlocks, parts: list[SortedBlocks]) -> SortedBlocks:
    if not parts:
        return blocks

    def column(name: str) -> Longs:
        return np.concatenate([getattr(part, name) for part in parts])

    return SortedBlocks(
        blocks.number_of_states, column("slots"), column("sizes"), column("lasts"), column("places"), blocks.buffer
    )
