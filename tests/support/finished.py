"""Finished results for planted faults, and the kinds of state that they contain."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

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
"""Parallelism at which streams with different headers are merged, so that state ids are translated; 4 for the
others."""

KEYED = {
    CANONICAL: Slot.KEYED,
    HEAP: Slot.KEYED,
    RAW: Slot.RAW_KEYED,
    LAZY: Slot.KEYED,
    COMPRESSED: Slot.KEYED,
    HEAP_COMPRESSED: Slot.KEYED,
    LAZY_COMPRESSED: Slot.KEYED,
}
ELEMENTS = {CANONICAL: Slot.OPERATOR, RAW: Slot.RAW_OPERATOR, COMPRESSED: Slot.OPERATOR, SOURCE: Slot.OPERATOR}


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
