"""The validator finds every fault planted in keyed state."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rescale.flink.slot import Slot
from rescale.snapshot.keyed_state import KeyedStream
from support.finished import HANDLE_FAULTS, KEYED_SLOT, LAZY, LAZY_COMPRESSED, RAW, ResultOf, assert_found, keyed_place
from support.planting import Place, Result
from support.slow import pairs_in_turn


def two_groups(result: Result, place: Place) -> tuple[int, int, list[bytes | None]]:
    """Return the numbers of two key groups that are present, and all groups."""
    groups = result.groups(place)
    first, *_, last = [i for i, group in enumerate(groups) if group]
    return first, last, groups


def swap_groups(result: Result, place: Place) -> None:
    i, j, groups = two_groups(result, place)
    groups[i], groups[j] = groups[j], groups[i]
    result.write_groups(place, groups)


def lose_group(result: Result, place: Place) -> None:
    i, _, groups = two_groups(result, place)
    groups[i] = None
    result.write_groups(place, groups)


def double_group(result: Result, place: Place) -> None:
    i, _, groups = two_groups(result, place)
    groups[i] = (groups[i] or b"") * 2
    result.write_groups(place, groups)


def double_group_elsewhere(result: Result, place: Place) -> None:
    i, j, groups = two_groups(result, place)
    groups[j] = groups[i]
    result.write_groups(place, groups)


def empty_group(result: Result, place: Place) -> None:
    """Remove the bytes of a key group, whose offset is then that of the next group."""
    i, _, groups = two_groups(result, place)
    groups[i] = b""
    result.write_groups(place, groups)


def exchange_bytes_of_groups(result: Result, place: Place) -> None:
    """Exchange one byte between two key groups, which leaves the sum over both unchanged."""
    assert isinstance(place.stream, KeyedStream)
    i, j, groups = two_groups(result, place)
    first, other = groups[i] or b"", groups[j] or b""
    byte_index = next(
        byte_index for byte_index in range(min(len(first), len(other))) if first[byte_index] != other[byte_index]
    )
    groups[i] = first[:byte_index] + other[byte_index : byte_index + 1] + first[byte_index + 1 :]
    groups[j] = other[:byte_index] + first[byte_index : byte_index + 1] + other[byte_index + 1 :]
    result.write_groups(place, groups)


KEYED_FAULTS: dict[str, Callable[[Result, Place], None]] = {
    "two groups swapped": swap_groups,
    "a group missing": lose_group,
    "a group without its bytes": empty_group,
    "a group doubled": double_group,
    "a group replaced by a copy of another": double_group_elsewhere,
    "a byte exchanged between groups": exchange_bytes_of_groups,
    **HANDLE_FAULTS,
    "a file cut by a byte": lambda _, place: place.cut(-1),
    "an empty file": lambda _, place: place.cut(0),
    "a file that is gone": lambda _, place: place.path.unlink(),
}


@pytest.mark.parametrize(("fault", "name"), pairs_in_turn(KEYED_FAULTS, list(KEYED_SLOT)))
def test_a_fault_in_keyed_state_is_found(fault: str, name: str, result_of: ResultOf) -> None:
    result = result_of(name)
    KEYED_FAULTS[fault](result, keyed_place(result, KEYED_SLOT[name]))
    assert_found(result)


@pytest.mark.parametrize(("name", "position"), pairs_in_turn(KEYED_SLOT, [0.0, 0.5, 1.0], quick=1))
def test_a_flipped_byte_in_a_key_group_is_found(name: str, position: float, result_of: ResultOf) -> None:
    result = result_of(name)
    place = keyed_place(result, KEYED_SLOT[name])
    assert isinstance(place.stream, KeyedStream)
    extent = next(extent for extent in reversed(place.stream.groups) if extent is not None and extent.length)
    place.flip(extent.start + int(position * (extent.length - 1)), bit=6)
    error = assert_found(result)
    assert error.operator is not None


@pytest.mark.parametrize("name", [LAZY, LAZY_COMPRESSED])
def test_a_flipped_byte_in_any_translated_key_group_is_found(name: str, result_of: ResultOf) -> None:
    result = result_of(name)
    for place in result.places(Slot.KEYED):
        assert isinstance(place.stream, KeyedStream)
        for extent in filter(None, place.stream.groups):
            place.flip(extent.start + extent.length // 2)
            assert_found(result)
            place.flip(extent.start + extent.length // 2)
    result.validate()


@pytest.mark.parametrize(
    ("name", "position"), pairs_in_turn((name for name in KEYED_SLOT if name != RAW), [0.0, 0.1, 0.5, 0.9, 1.0])
)
def test_a_flipped_byte_in_a_header_is_found(name: str, position: float, result_of: ResultOf) -> None:
    result = result_of(name)
    place = keyed_place(result, KEYED_SLOT[name])
    assert isinstance(place.stream, KeyedStream)
    place.flip(int(position * (len(place.stream.header) - 1)))
    assert_found(result)
