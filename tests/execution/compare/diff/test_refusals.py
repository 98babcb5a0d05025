"""Snapshots that cannot be compared raise an error and are not reported as different."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rescale.flink.slot import Slot
from rescale.text.errors import SnapshotError, UnsupportedError
from support import snapshots
from support.diffing import diff
from support.planting import Result

CANONICAL = "2-canonical-rocksdb"


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ("2-canonical-hashmap", "2-heap-checkpoint", "only one snapshot is in the heap backend's format"),
        ("2-unaligned", "2-unaligned", "records in flight"),
        ("1.20-heap-native", "1.20-heap-native-compressed", "by whole key groups"),
    ],
)
def test_incomparable_snapshots_are_refused_with_advice(
    a: str, b: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a known layout, heap state can only be compared as whole key groups."""
    monkeypatch.setattr("rescale.execution.compare.diff.pairs.can_delimit_entries", lambda _: False)
    with pytest.raises(UnsupportedError, match=message) as caught:
        diff(snapshots.opened(a), snapshots.opened(b))
    assert caught.value.operator
    assert caught.value.advice


def test_unaligned_snapshot_is_refused_though_size_of_records_in_flight_is_unknown() -> None:
    unaligned = snapshots.opened("2-unaligned")
    sizeless = replace(
        unaligned, operators=tuple(replace(operator, channel_bytes=0) for operator in unaligned.operators)
    )
    with pytest.raises(UnsupportedError, match="records in flight"):
        diff(sizeless, sizeless)


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_unreadable_snapshot_raises_snapshot_error_instead_of_difference(
    damage: str, result_of: Callable[[str], Result]
) -> None:
    result = result_of(CANONICAL)
    place = max(result.places(Slot.KEYED), key=lambda place: place.stream.extent.length)
    result.write_groups(place, [group[:-1] if group else None for group in result.groups(place)])
    if damage == "gone":
        place.path.unlink()
    with pytest.raises(SnapshotError) as caught:
        diff(snapshots.opened(CANONICAL), result.opened())
    assert str(result.target) in str(caught.value) or damage == "gone"
