"""The validator finds every fault planted in operator state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from rescale.flink.metadata.handles import DistributionMode, OperatorHandle, RelativeFileStream
from rescale.flink.slot import Slot
from rescale.snapshot.model import ElementStream
from support.finished import CANONICAL, COMPRESSED, OPERATOR_STATE_SLOT, RAW, SOURCE, ResultOf, assert_found
from support.planting import Place, Result
from support.slow import pairs_in_turn


@dataclass(frozen=True)
class Spot:
    """An operator state with elements, in one stream."""

    place: Place
    state: str

    def change(self, result: Result, change: Callable[[list[bytes]], list[bytes]]) -> None:
        elements = result.elements(self.place)
        result.write_elements(self.place, {**elements, self.state: change(elements[self.state])})


def find_spot(result: Result, slot: Slot, mode: DistributionMode, least_elements: int = 1) -> Spot:
    for place in result.places(slot):
        assert isinstance(place.stream, ElementStream)
        for state in place.stream.states:
            if state.mode is mode and len(state.elements) >= least_elements:
                return Spot(place, state.name)
    raise AssertionError(f"no {mode.name} state with {least_elements} elements")


SPLIT, UNION, BROADCAST = DistributionMode.SPLIT_DISTRIBUTE, DistributionMode.UNION, DistributionMode.BROADCAST


ELEMENT_FAULTS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "lost": lambda elements: elements[1:],
    "doubled": lambda elements: [*elements, elements[0]],
    "changed": lambda elements: [elements[0][:-1] + bytes([elements[0][-1] ^ 1]), *elements[1:]],
    "cut": lambda elements: [elements[0][:-1], *elements[1:]],
    "prolonged": lambda elements: [elements[0] + b"\0", *elements[1:]],
    "none left": lambda _: [],
}


NAMES_AND_MODES = [
    *((SOURCE, SPLIT), (RAW, SPLIT)),
    *((name, mode) for name in (CANONICAL, COMPRESSED) for mode in DistributionMode),
]


@pytest.mark.parametrize(("fault", "name_and_mode"), pairs_in_turn(ELEMENT_FAULTS, NAMES_AND_MODES, quick=3))
def test_a_fault_in_an_element_is_found(
    fault: str, name_and_mode: tuple[str, DistributionMode], result_of: ResultOf
) -> None:
    name, mode = name_and_mode
    result = result_of(name)
    find_spot(result, OPERATOR_STATE_SLOT[name], mode).change(result, ELEMENT_FAULTS[fault])
    assert_found(result)


@pytest.mark.parametrize("name", [CANONICAL, COMPRESSED])
@pytest.mark.parametrize("mode", [SPLIT, UNION])
def test_two_elements_merged_into_one_are_found(name: str, mode: DistributionMode, result_of: ResultOf) -> None:
    result = result_of(name)
    find_spot(result, OPERATOR_STATE_SLOT[name], mode, 2).change(result, lambda e: [e[0] + e[1], *e[2:]])
    assert_found(result)


@pytest.mark.parametrize("mode", [SPLIT, UNION])
def test_one_element_lost_and_another_doubled_are_found(mode: DistributionMode, result_of: ResultOf) -> None:
    result = result_of(CANONICAL)
    find_spot(result, Slot.OPERATOR, mode, 2).change(result, lambda e: [e[0], e[0], *e[2:]])
    assert_found(result)


@pytest.mark.parametrize("mode", DistributionMode)
def test_state_missing_in_a_subtask_is_found(mode: DistributionMode, result_of: ResultOf) -> None:
    result = result_of(CANONICAL)
    spot = find_spot(result, Slot.OPERATOR, mode)
    elements = result.elements(spot.place)
    del elements[spot.state]
    result.write_elements(spot.place, elements)
    error = assert_found(result)
    assert error.state == spot.state


def test_broadcast_map_in_place_of_another_is_found(result_of: ResultOf) -> None:
    result = result_of(CANONICAL)
    place = find_spot(result, Slot.OPERATOR, BROADCAST).place
    elements = result.elements(place)
    result.write_elements(place, {**elements, "rates": elements["no-rates"]})
    error = assert_found(result)
    assert error.state == "rates"


@pytest.mark.parametrize("mode", DistributionMode)
def test_additional_element_at_a_separate_offset_is_found(mode: DistributionMode, result_of: ResultOf) -> None:
    """The added element lies before the right one, and of a broadcast state Flink reads only the first."""
    result = result_of(CANONICAL)
    spot = find_spot(result, Slot.OPERATOR, mode)
    assert isinstance(spot.place.stream, ElementStream)
    begin, added = len(spot.place.stream.header), b"another one"
    data = spot.place.path.read_bytes()

    def with_added_offset(handle: object) -> OperatorHandle:
        assert isinstance(handle, OperatorHandle)
        states = [
            replace(state, offsets=tuple(offset + len(added) for offset in state.offsets)) for state in handle.states
        ]
        states = [
            replace(state, offsets=(begin, *state.offsets)) if state.name == spot.state else state for state in states
        ]
        stream = RelativeFileStream(spot.place.path.name, len(data) + len(added))
        return replace(handle, states=tuple(states), stream=stream)

    result.edit_handle(spot.place, with_added_offset)
    spot.place.path.write_bytes(data[:begin] + added + data[begin:])
    assert_found(result)


@pytest.mark.parametrize(
    ("name", "position"), pairs_in_turn([CANONICAL, COMPRESSED, SOURCE], [0.0, 0.1, 0.5, 0.9, 1.0])
)
def test_flipped_byte_in_operator_state_header_is_found(name: str, position: float, result_of: ResultOf) -> None:
    result = result_of(name)
    place = find_spot(result, Slot.OPERATOR, SPLIT).place
    assert isinstance(place.stream, ElementStream)
    place.flip(int(position * (len(place.stream.header) - 1)))
    assert_found(result)


def test_other_distribution_mode_is_found(result_of: ResultOf) -> None:
    result = result_of(CANONICAL)

    def with_split_mode(handle: object) -> OperatorHandle:
        assert isinstance(handle, OperatorHandle)
        states = (replace(state, mode=SPLIT) if state.mode is UNION else state for state in handle.states)
        return replace(handle, states=tuple(states))

    for place in result.places(Slot.OPERATOR):
        result.edit_handle(place, with_split_mode)
    assert_found(result)


def test_missing_operator_state_handle_is_found(result_of: ResultOf) -> None:
    result = result_of(CANONICAL)
    result.edit_handle(result.places(Slot.OPERATOR)[0], lambda _: None)
    assert_found(result)
