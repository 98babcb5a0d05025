"""Elements of operator state that differ are named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rescale.execution.compare.diff.items import (
    MISSING_COPIES,
    REPEATED_ELEMENTS,
    DigestedItem,
    DigestedItems,
    compare_copies,
)
from rescale.flink.encoding.binary import ByteReader
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.serializers.program import compile_program
from rescale.flink.serializers.value_format import format_value
from rescale.flink.slot import Slot
from rescale.report.differences import ListedDifference
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import ElementStream
from support.diffing import diff_against_source, only_unequal_state
from support.planting import Place, Result

CANONICAL = "2-canonical-rocksdb"


def change_elements(
    result: Result, mode: DistributionMode, change: Callable[[list[bytes]], list[bytes]]
) -> tuple[str, Place, list[bytes]]:
    """Change the elements of the first state with this mode that has two elements, or one copy, in a subtask."""
    for place in result.places(Slot.OPERATOR):
        assert isinstance(place.stream, ElementStream)
        for state in place.stream.states:
            if state.mode is mode and len(state.elements) >= (1 if mode is DistributionMode.BROADCAST else 2):
                elements = result.elements(place)
                old_elements = elements[state.name]
                result.write_elements(place, {**elements, state.name: change(old_elements)})
                return state.name, place, old_elements
    raise AssertionError(f"no {mode.name} state")


@pytest.mark.parametrize("mode", [DistributionMode.SPLIT_DISTRIBUTE, DistributionMode.UNION])
def test_a_doubled_element_is_named(mode: DistributionMode, result_of: Callable[[str], Result]) -> None:
    result = result_of(CANONICAL)
    name, _, _ = change_elements(result, mode, lambda elements: [elements[0], *elements])
    state = only_unequal_state(diff_against_source(result, CANONICAL))
    (difference,) = state.differences
    assert (state.state, state.type, state.counted) == (name, mode.name, "elements")
    assert state.b.count == state.a.count + 1
    assert (difference.found, difference.a, difference.b) == ("other number", "1 time", "2 times")


def test_a_changed_element_is_named(result_of: Callable[[str], Result]) -> None:
    result = result_of(CANONICAL)
    change_elements(result, DistributionMode.SPLIT_DISTRIBUTE, lambda e: [e[0][:-1] + bytes([e[0][-1] ^ 1]), *e[1:]])
    state = only_unequal_state(diff_against_source(result, CANONICAL))
    assert sorted((d.found, d.a, d.b) for d in state.differences) == [
        ("only in A", "1 time", None),
        ("only in B", None, "1 time"),
    ]
    assert len({d.item["element"] for d in state.differences}) == 2


def test_union_state_stored_by_every_subtask_gets_a_remark(result_of: Callable[[str], Result]) -> None:
    result = result_of(CANONICAL)
    places = [place for place in result.places(Slot.OPERATOR) if "offsets" in result.elements(place)]
    all_elements = [element for place in places for element in result.elements(place)["offsets"]]
    for place in places:
        result.write_elements(place, {**result.elements(place), "offsets": all_elements})
    state = only_unequal_state(diff_against_source(result, CANONICAL))
    assert state.b.count == len(places) * state.a.count
    assert state.remark == REPEATED_ELEMENTS
    for difference in state.differences:
        copies_in_a, copies_in_b = (
            int((description or "0").split()[0]) for description in (difference.a, difference.b)
        )
        assert (difference.found, copies_in_b) == ("other number", len(places) * copies_in_a)


def test_a_missing_broadcast_copy_is_named(result_of: Callable[[str], Result]) -> None:
    result = result_of(CANONICAL)
    places = [place for place in result.places(Slot.OPERATOR) if "rates" in result.elements(place)]
    elements = result.elements(places[2])
    del elements["rates"]
    result.write_elements(places[2], elements)
    state = only_unequal_state(diff_against_source(result, CANONICAL))
    assert (state.state, state.type) == ("rates", "BROADCAST")
    assert state.differences == (
        ListedDifference("other number", {"copies": "by subtask"}, "in every subtask", "missing in subtask 2"),
    )


@pytest.mark.parametrize(
    ("subtasks", "parallelism", "difference_count", "remark"),
    [
        (((0,), (0, 1, 2)), (2, 3), 1, MISSING_COPIES),
        (((0, 1), (0, 2)), (2, 3), 1, MISSING_COPIES),
        (((0,), (0, 1)), (2, 2), 1, None),
        (((0, 1), (0, 1, 2)), (2, 3), 0, None),
    ],
)
def test_copies_missing_because_of_another_parallelism_get_a_remark(
    subtasks: tuple[tuple[int, ...], ...], parallelism: tuple[int, int], difference_count: int, remark: str | None
) -> None:
    """A missing copy counts as a difference, because the order of the snapshots is unknown."""
    items = DigestedItems(*([DigestedItem(7, subtask, 0, Extent(1, 0, 9)) for subtask in side] for side in subtasks))
    state = compare_copies(items, parallelism, lambda *_: "a copy")
    assert (state.difference_count, state.remark) == (difference_count, remark)
    assert state.a == state.b


def test_changed_broadcast_copy_is_named(result_of: Callable[[str], Result]) -> None:
    result = result_of(CANONICAL)
    name, place, _ = change_elements(
        result, DistributionMode.BROADCAST, lambda copies: [copies[0][:-1] + bytes([copies[0][-1] ^ 1])]
    )
    state = only_unequal_state(diff_against_source(result, CANONICAL))
    (difference,) = state.differences
    assert (state.state, state.a.count, state.b.count) == (name, 1, 2)
    assert (difference.found, difference.b) == ("only in B", f"subtask {place.stream.subtask}")


@pytest.mark.parametrize("name", [CANONICAL, "2-canonical-compressed"])
def test_order_of_entries_of_broadcast_state_is_ignored(name: str, result_of: Callable[[str], Result]) -> None:
    result = result_of(name)
    changed_count = 0
    for place in result.places(Slot.OPERATOR):
        stream = place.stream
        assert isinstance(stream, ElementStream)
        assert stream.parsed is not None
        if stream.parsed.compressed:
            continue
        for info in stream.parsed.broadcast_states:
            serializers = dict(info.serializers)
            trees = [compile_program(serializers[f"{part}_SERIALIZER"]).tree for part in ("KEY", "VALUE")]
            elements = result.elements(place)
            copy = elements[info.name][0]
            reader, entries = ByteReader(copy), []
            for _ in range(reader.i32()):
                begin = reader.position
                for tree in trees:
                    format_value(tree, reader)
                entries.append(copy[begin : reader.position])
            reversed_copy = copy[:4] + b"".join(reversed(entries))
            changed_count += reversed_copy != copy
            result.write_elements(place, {**elements, info.name: [reversed_copy]})
    assert changed_count or name != CANONICAL
    assert diff_against_source(result, name).equal
