"""Blocks for a writer that wants the records of a key group and state by the bytes of their keys.

As many blocks as fit into memory are sorted at once, slot by slot; a slot that lies in several such runs, or is larger
than memory, is merged.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rescale.execution.rekeying.sorted_blocks import SortedBlocks
from rescale.execution.writers.windows import windows
from rescale.flink.arrays import Bytes, Longs
from rescale.flink.keyed.record_places import records_of_blocks

MEMORY = 32 * 1024 * 1024
WINDOW = 8 * 1024 * 1024


def in_key_order(blocks: SortedBlocks) -> SortedBlocks:
    """The same records in other blocks, whose bytes are put into the buffer, too."""
    runs = _joined(blocks, [_sorted(blocks.part(first, last)) for first, last in windows(blocks, MEMORY)])
    borders = np.flatnonzero(np.diff(runs.slots, prepend=-1, append=-1))
    found, at = [], 0
    for several in np.flatnonzero(np.diff(borders) > 1).tolist():
        first, last = borders[several : several + 2].tolist()
        found += [runs.part(at, first), _merged(runs.part(first, last))]
        at = last
    return _joined(runs, [*found, runs.part(at, len(runs))])


def _sorted(blocks: SortedBlocks) -> SortedBlocks:
    """Blocks that fit into memory together, as one for each of their slots."""
    from rescale.execution.rekeying.key_order_loop import put_records
    from rescale.flink.keyed.key_sort_loop import sort_keys

    data, begins = blocks.load(0, len(blocks))
    records = records_of_blocks(data, begins, begins + blocks.sizes)
    count = len(records.starts)
    if count < 2:
        return blocks
    order = np.empty(count, np.int64)
    sort_keys(data, records.starts, records.limits, order, np.empty(count, np.uint64))
    slots = blocks.slots[records.blocks]
    order = order[np.argsort(slots[order], kind="stable")]
    out = np.empty(int(blocks.sizes.sum()), np.uint8)
    put_records(data, records.starts, records.ends, order, out)
    behind = np.cumsum((records.ends - records.starts + 4)[order])
    last = np.flatnonzero(np.diff(slots[order], append=-1))
    ends = behind[last]
    starts = np.concatenate([[0], ends[:-1]])
    begins_of_last = ends - (records.ends - records.starts + 4)[order[last]]
    places = blocks.buffer.append(out.data) + starts
    return SortedBlocks(
        blocks.number_of_states, slots[order[last]], ends - starts, begins_of_last - starts, places, blocks.buffer
    )


def _merged(slot: SortedBlocks) -> SortedBlocks:
    """Of sorted runs of one slot."""
    found = [(len(data), last, slot.buffer.append(data.data)) for data, last in _windows(slot)]
    sizes, lasts, places = (np.array(column, np.int64) for column in zip(*found, strict=True))
    return SortedBlocks(slot.number_of_states, np.full(len(found), slot.slots[0]), sizes, lasts, places, slot.buffer)


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


def _joined(blocks: SortedBlocks, parts: list[SortedBlocks]) -> SortedBlocks:
    if not parts:
        return blocks

    def column(name: str) -> Longs:
        return np.concatenate([getattr(part, name) for part in parts])

    return SortedBlocks(
        blocks.number_of_states, column("slots"), column("sizes"), column("lasts"), column("places"), blocks.buffer
    )
