"""From blocks to key groups in canonical framing (`FullSnapshotAsyncWriter`), in order, a window at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from rescale.execution.rekeying.arena import Arena
from rescale.execution.rekeying.blocks import read_row
from rescale.flink.keyed.record_marks import END_OF_GROUP, ID_SIZE

WINDOW = 8 * 1024 * 1024

_BLOCK = np.dtype(
    [(name, "<i8") for name in ("operator", "slot", "unit", "batch", "place", "size", "last")],
)
Blocks = npt.NDArray[np.void]


def take_in(rows: Iterable[bytes], arena: Arena) -> Blocks:
    """Puts the blocks of rows into the arena; returns them in the order of operator, slot and source."""
    parts = [np.empty(0, _BLOCK)]
    for data in rows:
        row = read_row(data)
        part = np.empty(len(row.blocks), _BLOCK)
        part["operator"], part["unit"], part["batch"] = row.operator, row.unit, row.batch
        for name in ("slot", "size", "last"):
            part[name] = row.blocks[name]
        part["place"] = arena.append(row.data) + np.cumsum(part["size"]) - part["size"]
        parts.append(part)
    blocks = np.concatenate(parts)
    return _chosen(blocks, np.lexsort([blocks[name] for name in ("batch", "unit", "slot", "operator")]))


def of_lane(blocks: Blocks, operator: int, first_slot: int, last_slot: int) -> Blocks:
    """Those of an operator in a range of slots, both included."""
    mine = _chosen(blocks, blocks["operator"] == operator)
    slots = mine["slot"]
    return _chosen(mine, slice(np.searchsorted(slots, first_slot), np.searchsorted(slots, last_slot, side="right")))


def _chosen(blocks: Blocks, which: Any) -> Blocks:
    chosen: Blocks = blocks[which]
    return chosen


def framed(blocks: Blocks, number_of_states: int, arena: Arena) -> Iterator[memoryview]:
    """The key groups that whole blocks make, in pieces of about `WINDOW` bytes; each is overwritten by the next."""
    from rescale.execution.rekeying import loops

    slots = blocks["slot"]
    groups, states = slots // number_of_states, slots % number_of_states
    changes = np.diff(groups) != 0
    begins, ends = np.append(True, changes), np.append(changes, True)
    ends_state = np.append(np.diff(slots) != 0, True)
    first_ids = np.where(begins, states, -1)
    marks = np.where(ends_state, np.where(ends, END_OF_GROUP, np.append(states[1:], 0)), -1)
    behind = np.cumsum(blocks["size"] + ID_SIZE * begins + ID_SIZE * ends_state)
    out = np.empty(0, np.uint8)
    first, written = 0, 0
    while first < len(blocks):
        last = max(first + 1, int(np.searchsorted(behind, written + WINDOW, side="right")))
        window = slice(first, last)
        size = int(behind[last - 1]) - written
        if size > len(out):
            out = np.empty(max(size, WINDOW), np.uint8)
        sizes = np.ascontiguousarray(blocks["size"][window])
        data, starts = arena.blocks(np.ascontiguousarray(blocks["place"][window]), sizes)
        lasts = np.ascontiguousarray(blocks["last"][window])
        loops.frame_blocks(data, starts, sizes, lasts, first_ids[window], marks[window], out)
        yield out[:size].data
        first, written = last, written + size


def by_key_group(blocks: Blocks, number_of_states: int) -> Iterator[tuple[int, Blocks]]:
    """The blocks of every key group that has any."""
    groups = blocks["slot"] // number_of_states
    borders = np.flatnonzero(np.diff(groups)) + 1
    for part in np.split(blocks, borders):
        if len(part):
            yield int(part["slot"][0]) // number_of_states, part
