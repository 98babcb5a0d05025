"""Results in which tests plant faults, and the kinds of state in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from rescale.flink.metadata.handles import KeyGroupsHandle
from rescale.flink.slot import Slot
from rescale.runstate.places import places_of
from rescale.text.errors import IntegrityError
from support import snapshots
from support.pipeline import execute_without_spark, plan_rescale
from support.planting import Place, Result

ResultOf = Callable[[str], Result]

CANONICAL, HEAP, RAW, LAZY = "1.20-canonical-rocksdb", "2-heap-native", "2-raw", "2-lazy"
COMPRESSED, HEAP_COMPRESSED, LAZY_COMPRESSED = (
    "2-canonical-compressed",
    "1.20-heap-native-compressed",
    "2-lazy-compressed",
)
SOURCE = "2-source"

PARALLELISM = {LAZY: "2", LAZY_COMPRESSED: "1"}
"""Parallelism at which streams with different headers are merged, so that state ids are translated; 4 for all other
fixtures."""

KEYED_SLOT = {
    CANONICAL: Slot.KEYED,
    HEAP: Slot.KEYED,
    RAW: Slot.RAW_KEYED,
    LAZY: Slot.KEYED,
    COMPRESSED: Slot.KEYED,
    HEAP_COMPRESSED: Slot.KEYED,
    LAZY_COMPRESSED: Slot.KEYED,
}
OPERATOR_STATE_SLOT = {
    CANONICAL: Slot.OPERATOR,
    RAW: Slot.RAW_OPERATOR,
    COMPRESSED: Slot.OPERATOR,
    SOURCE: Slot.OPERATOR,
}


def rescaled(name: str, folder: Path, *parallelism: str, **wanted: Any) -> Result:
    """Return the published result of a snapshot in another shape or format, with all state in files."""
    with patch("rescale.planning.streams.inline.INLINE_LIMIT", 0):
        plan = plan_rescale(snapshots.directory(name), str(folder / "target"), parallelism, **wanted)
        execute_without_spark(plan)
    return Result(plan.source, folder / "target", Path(places_of(plan).candidate), plan.key_hashes)


def assert_found(result: Result) -> IntegrityError:
    with pytest.raises(IntegrityError) as caught:
        result.validate()
    assert caught.value.exit_code == 4
    return caught.value


def keyed_place(result: Result, slot: Slot) -> Place:
    """Return the largest keyed stream with at least two key groups."""
    places = [place for place in result.places(slot) if sum(map(bool, result.groups(place))) > 1]
    return max(places, key=lambda place: place.stream.extent.length)


def keyed_handle(change: Callable[[KeyGroupsHandle], KeyGroupsHandle | None]) -> Callable[[Result, Place], None]:
    """Return a fault in the handle of a keyed stream."""

    def plant(result: Result, place: Place) -> None:
        def changed(handle: object) -> object:
            assert isinstance(handle, KeyGroupsHandle)
            return change(handle)

        result.edit_handle(place, changed)

    return plant


def moved_offset(by: int) -> Callable[[Result, Place], None]:
    def change(handle: KeyGroupsHandle) -> KeyGroupsHandle:
        last = max(handle.offsets)
        return replace(handle, offsets=tuple(o + by if o == last else o for o in handle.offsets))

    return keyed_handle(change)


def swapped_offsets(handle: KeyGroupsHandle) -> KeyGroupsHandle:
    present = [i for i, offset in enumerate(handle.offsets) if offset > 0]
    i, j = present[0], present[-1]
    offsets = list(handle.offsets)
    offsets[i], offsets[j] = offsets[j], offsets[i]
    return replace(handle, offsets=tuple(offsets))


HANDLE_FAULTS: dict[str, Callable[[Result, Place], None]] = {
    "an offset one too large": moved_offset(1),
    "an offset one too small": moved_offset(-1),
    "an offset beyond the end": moved_offset(1 << 40),
    "a negative offset": moved_offset(-(1 << 40)),
    "offsets swapped": keyed_handle(swapped_offsets),
    "no handle": keyed_handle(lambda _: None),
    "another first key group": keyed_handle(lambda h: replace(h, first_key_group=h.first_key_group + 1)),
    "a handle that lists fewer groups": keyed_handle(lambda h: replace(h, offsets=h.offsets[:-1])),
}
