"""The validator proves itself: whatever fault is planted in a finished result, it is found, and nothing else is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pytest

from rescale.claim import claim, store_plan
from rescale.errors import IntegrityError
from rescale.execution.steps import validate_coverage, validate_published
from rescale.flink.metadata.handles import (
    DistributionMode,
    FileStream,
    InlineStream,
    KeyGroupsHandle,
    OperatorHandle,
    RelativeFileStream,
)
from rescale.flink.metadata.model import MasterState, Metadata, OperatorState
from rescale.planning.plan import Slot
from rescale.planning.snapshot import ElementStream, KeyedStream
from rescale.publish import publish
from support import snapshots
from support.pipeline import move, plan_rescale, shared_spark
from support.planting import Place, Result
from support.readme import fields

ResultOf = Callable[[str], Result]

CANONICAL, HEAP, RAW, LAZY = "1.20-canonical-rocksdb", "2-heap-native", "2-raw", "2-lazy"
COMPRESSED, HEAP_COMPRESSED, LAZY_COMPRESSED = (
    "2-canonical-compressed",
    "1.20-heap-native-compressed",
    "2-lazy-compressed",
)
SOURCE = "2-source"

PARALLELISM = {LAZY: "2", LAZY_COMPRESSED: "1"}
"""Where streams with different headers come together, so that state ids are translated; 4 elsewhere."""

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


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Result]:
    """Gives the result of a snapshot, all of its state in files."""

    @cache
    def make(name: str) -> Result:
        target = tmp_path_factory.mktemp("finished") / "target"
        with patch("rescale.planning.streams.INLINE_LIMIT", 0):
            plan = plan_rescale(snapshots.directory(name), str(target), [PARALLELISM.get(name, "4")])
        move(plan)
        validate_coverage(plan, shared_spark())
        return Result(plan.source, target, Path(plan.places.candidate))

    return make


@pytest.fixture
def result_of(finished: Callable[[str], Result], tmp_path: Path) -> ResultOf:
    """Gives a copy of a finished result, to spoil."""

    def copy(name: str) -> Result:
        original = finished(name)
        shutil.copytree(original.target, tmp_path / "target")
        shutil.copy(original.candidate, tmp_path / "candidate")
        return Result(original.source, tmp_path / "target", tmp_path / "candidate")

    return copy


def assert_found(result: Result) -> IntegrityError:
    with pytest.raises(IntegrityError) as caught:
        result.validate()
    assert caught.value.exit_code == 4
    return caught.value


@pytest.mark.parametrize("name", [*KEYED, SOURCE])
def test_an_untouched_result_passes(name: str, result_of: ResultOf) -> None:
    proofs = result_of(name).validate()
    source = snapshots.opened(name)
    assert [proof.operator_id for proof in proofs] == [operator.entry.operator_id for operator in source.operators]
    assert sum(proof.key_groups + proof.elements for proof in proofs) > 0


def keyed_place(result: Result, slot: Slot) -> Place:
    """The largest keyed stream with two key groups or more."""
    places = [place for place in result.places(slot) if sum(map(bool, result.groups(place))) > 1]
    return max(places, key=lambda place: place.stream.extent.length)


def two_groups(result: Result, place: Place) -> tuple[int, int, list[bytes | None]]:
    """The numbers of two key groups that are there, and all groups."""
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
    """The bytes are gone, the offset is that of the next group."""
    i, _, groups = two_groups(result, place)
    groups[i] = b""
    result.write_groups(place, groups)


def exchange_bytes_of_groups(result: Result, place: Place) -> None:
    """One byte is exchanged between two key groups: their sums stay."""
    assert isinstance(place.stream, KeyedStream)
    i, j, groups = two_groups(result, place)
    one, other = groups[i] or b"", groups[j] or b""
    at = next(at for at in range(min(len(one), len(other))) if one[at] != other[at])
    groups[i] = one[:at] + other[at : at + 1] + one[at + 1 :]
    groups[j] = other[:at] + one[at : at + 1] + other[at + 1 :]
    result.write_groups(place, groups)


def keyed_handle(change: Callable[[KeyGroupsHandle], KeyGroupsHandle | None]) -> Callable[[Result, Place], None]:
    """A fault in the handle of a keyed stream."""

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


KEYED_FAULTS: dict[str, Callable[[Result, Place], None]] = {
    "two groups swapped": swap_groups,
    "a group missing": lose_group,
    "a group without its bytes": empty_group,
    "a group doubled": double_group,
    "a group in the place of another": double_group_elsewhere,
    "a byte exchanged between groups": exchange_bytes_of_groups,
    "offsets swapped": keyed_handle(swapped_offsets),
    "an offset one too large": moved_offset(1),
    "an offset one too small": moved_offset(-1),
    "an offset behind the end": moved_offset(1 << 40),
    "a negative offset": moved_offset(-(1 << 40)),
    "no handle": keyed_handle(lambda _: None),
    "key groups numbered from another": keyed_handle(lambda h: replace(h, first_key_group=h.first_key_group + 1)),
    "a handle that lists fewer groups": keyed_handle(lambda h: replace(h, offsets=h.offsets[:-1])),
    "a file cut by a byte": lambda _, place: place.cut(-1),
    "an empty file": lambda _, place: place.cut(0),
    "a file that is gone": lambda _, place: place.path.unlink(),
}


@pytest.mark.parametrize("name", KEYED)
@pytest.mark.parametrize("fault", KEYED_FAULTS)
def test_a_fault_in_keyed_state_is_found(name: str, fault: str, result_of: ResultOf) -> None:
    result = result_of(name)
    KEYED_FAULTS[fault](result, keyed_place(result, KEYED[name]))
    assert_found(result)


@pytest.mark.parametrize("name", KEYED)
@pytest.mark.parametrize("where", [0.0, 0.5, 1.0])
def test_a_flipped_byte_in_a_key_group_is_found(name: str, where: float, result_of: ResultOf) -> None:
    result = result_of(name)
    place = keyed_place(result, KEYED[name])
    assert isinstance(place.stream, KeyedStream)
    group = next(extent for extent in reversed(place.stream.groups) if extent is not None and extent.length)
    place.flip(group.start + int(where * (group.length - 1)), bit=6)
    error = assert_found(result)
    assert error.operator is not None


@pytest.mark.parametrize("name", [LAZY, LAZY_COMPRESSED])
def test_a_flipped_byte_in_any_translated_key_group_is_found(name: str, result_of: ResultOf) -> None:
    result = result_of(name)
    for place in result.places(Slot.KEYED):
        assert isinstance(place.stream, KeyedStream)
        for group in filter(None, place.stream.groups):
            place.flip(group.start + group.length // 2)
            assert_found(result)
            place.flip(group.start + group.length // 2)
    result.validate()


@pytest.mark.parametrize("name", [name for name in KEYED if name != RAW])
@pytest.mark.parametrize("where", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_a_flipped_byte_in_a_header_is_found(name: str, where: float, result_of: ResultOf) -> None:
    result = result_of(name)
    place = keyed_place(result, KEYED[name])
    assert isinstance(place.stream, KeyedStream)
    place.flip(int(where * (len(place.stream.header) - 1)))
    assert_found(result)


@dataclass(frozen=True)
class Spot:
    """A state of operator state with elements, in one stream."""

    place: Place
    state: str

    def change(self, result: Result, change: Callable[[list[bytes]], list[bytes]]) -> None:
        elements = result.elements(self.place)
        result.write_elements(self.place, {**elements, self.state: change(elements[self.state])})


def spot(result: Result, slot: Slot, mode: DistributionMode, least: int = 1) -> Spot:
    for place in result.places(slot):
        assert isinstance(place.stream, ElementStream)
        for state in place.stream.states:
            if state.mode is mode and len(state.elements) >= least:
                return Spot(place, state.name)
    raise AssertionError(f"no {mode.name} state with {least} elements")


SPLIT, UNION, BROADCAST = DistributionMode.SPLIT_DISTRIBUTE, DistributionMode.UNION, DistributionMode.BROADCAST
ELEMENT_FAULTS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "lost": lambda elements: elements[1:],
    "doubled": lambda elements: [*elements, elements[0]],
    "changed": lambda elements: [elements[0][:-1] + bytes([elements[0][-1] ^ 1]), *elements[1:]],
    "cut": lambda elements: [elements[0][:-1], *elements[1:]],
    "prolonged": lambda elements: [elements[0] + b"\0", *elements[1:]],
    "none left": lambda _: [],
}


@pytest.mark.parametrize(
    ("name", "mode"),
    [(SOURCE, SPLIT), (RAW, SPLIT), *((name, mode) for name in (CANONICAL, COMPRESSED) for mode in DistributionMode)],
)
@pytest.mark.parametrize("fault", ELEMENT_FAULTS)
def test_a_fault_in_an_element_is_found(name: str, mode: DistributionMode, fault: str, result_of: ResultOf) -> None:
    result = result_of(name)
    spot(result, ELEMENTS[name], mode).change(result, ELEMENT_FAULTS[fault])
    assert_found(result)


@pytest.mark.parametrize("name", [CANONICAL, COMPRESSED])
@pytest.mark.parametrize("mode", [SPLIT, UNION])
def test_two_elements_made_one_are_found(name: str, mode: DistributionMode, result_of: ResultOf) -> None:
    result = result_of(name)
    spot(result, ELEMENTS[name], mode, 2).change(result, lambda e: [e[0] + e[1], *e[2:]])
    assert_found(result)


@pytest.mark.parametrize("mode", [SPLIT, UNION])
def test_one_element_lost_and_another_doubled_are_found(mode: DistributionMode, result_of: ResultOf) -> None:
    result = result_of(CANONICAL)
    spot(result, Slot.OPERATOR, mode, 2).change(result, lambda e: [e[0], e[0], *e[2:]])
    assert_found(result)


@pytest.mark.parametrize("mode", DistributionMode)
def test_a_state_missing_in_one_subtask_is_found(mode: DistributionMode, result_of: ResultOf) -> None:
    result = result_of(CANONICAL)
    at = spot(result, Slot.OPERATOR, mode)
    elements = result.elements(at.place)
    del elements[at.state]
    result.write_elements(at.place, elements)
    error = assert_found(result)
    assert error.state == at.state


def test_a_broadcast_map_in_the_place_of_another_is_found(result_of: ResultOf) -> None:
    result = result_of(CANONICAL)
    place = spot(result, Slot.OPERATOR, BROADCAST).place
    elements = result.elements(place)
    result.write_elements(place, {**elements, "rates": elements["no-rates"]})
    error = assert_found(result)
    assert error.state == "rates"


@pytest.mark.parametrize("name", [CANONICAL, COMPRESSED, SOURCE])
@pytest.mark.parametrize("where", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_a_flipped_byte_in_the_header_of_operator_state_is_found(name: str, where: float, result_of: ResultOf) -> None:
    result = result_of(name)
    place = spot(result, Slot.OPERATOR, SPLIT).place
    assert isinstance(place.stream, ElementStream)
    place.flip(int(where * (len(place.stream.header) - 1)))
    assert_found(result)


def test_another_distribution_mode_is_found(result_of: ResultOf) -> None:
    result = result_of(CANONICAL)

    def changed(handle: object) -> OperatorHandle:
        assert isinstance(handle, OperatorHandle)
        states = (replace(state, mode=SPLIT) if state.mode is UNION else state for state in handle.states)
        return replace(handle, states=tuple(states))

    for place in result.places(Slot.OPERATOR):
        result.edit_handle(place, changed)
    assert_found(result)


def test_a_missing_handle_of_operator_state_is_found(result_of: ResultOf) -> None:
    result = result_of(CANONICAL)
    result.edit_handle(result.places(Slot.OPERATOR)[0], lambda _: None)
    assert_found(result)


def operators_with(field: str) -> Callable[[object], Callable[[Metadata], Metadata]]:
    """A change of one field of every operator that may have parallelism above 1."""

    def to(value: object) -> Callable[[Metadata], Metadata]:
        def change(metadata: Metadata) -> Metadata:
            return replace(metadata, operators=tuple(replace(entry, **{field: value}) for entry in metadata.operators))

        return change

    return to


def first_with_subtasks(change: Callable[[OperatorState], OperatorState]) -> Callable[[Metadata], Metadata]:
    """A change of the first operator with keyed state."""

    def changed(metadata: Metadata) -> Metadata:
        operators = list(metadata.operators)
        i = next(
            i for i, entry in enumerate(operators) if any(s.state and s.state.managed_keyed for s in entry.subtasks)
        )
        operators[i] = change(operators[i])
        return replace(metadata, operators=tuple(operators))

    return changed


def exchange_subtasks(entry: OperatorState) -> OperatorState:
    one, other, *rest = entry.subtasks
    return replace(entry, subtasks=(replace(one, state=other.state), replace(other, state=one.state), *rest))


METADATA_FAULTS: dict[str, Callable[[Metadata], Metadata]] = {
    "parallelism larger": first_with_subtasks(lambda entry: replace(entry, parallelism=entry.parallelism + 1)),
    "parallelism smaller": first_with_subtasks(
        lambda entry: replace(entry, parallelism=entry.parallelism - 1, subtasks=entry.subtasks[:-1])
    ),
    "all parallelism larger": operators_with("parallelism")(5),
    "max parallelism": first_with_subtasks(lambda entry: replace(entry, max_parallelism=entry.max_parallelism * 2)),
    "uid": operators_with("uid")("another"),
    "name": operators_with("name")("another"),
    "coordinator state changed": operators_with("coordinator")(InlineStream("coordinator", b"other")),
    "coordinator state lost": operators_with("coordinator")(None),
    "operator id": first_with_subtasks(lambda entry: replace(entry, operator_id="0" * 32)),
    "operator lost": lambda metadata: replace(metadata, operators=metadata.operators[1:]),
    "operator doubled": lambda metadata: replace(metadata, operators=(*metadata.operators, metadata.operators[0])),
    "fully finished": first_with_subtasks(lambda entry: replace(entry, fully_finished=True, subtasks=())),
    "subtasks exchanged": first_with_subtasks(exchange_subtasks),
    "checkpoint id": lambda metadata: replace(metadata, checkpoint_id=metadata.checkpoint_id + 1),
    "master state": lambda metadata: replace(metadata, masters=(MasterState(0, "hook", b"x"),)),
}


@pytest.mark.parametrize("fault", METADATA_FAULTS)
def test_a_fault_in_the_metadata_is_found(fault: str, result_of: ResultOf) -> None:
    name = SOURCE if "coordinator" in fault else "2-windows" if "operator" in fault else RAW
    result = result_of(name)
    result.edit(METADATA_FAULTS[fault])
    assert_found(result)


@pytest.mark.parametrize(
    "place",
    ["../{name}", "sub/../../{name}", "{outside}/{name}", "s3://bucket/{name}", "hdfs://name/{name}", "not there"],
)
def test_a_handle_that_points_elsewhere_is_found(place: str, result_of: ResultOf, tmp_path: Path) -> None:
    result = result_of(CANONICAL)
    stream = keyed_place(result, Slot.KEYED)
    path = stream.path
    outside = tmp_path / "outside"
    outside.mkdir()
    for folder in (tmp_path, outside):
        shutil.copy(path, folder)
    text = place.format(name=path.name, outside=outside)
    size = stream.stream.extent.length
    at = FileStream(text, size) if text.startswith("/") or ":" in text else RelativeFileStream(text, size)

    def changed(handle: object) -> KeyGroupsHandle:
        assert isinstance(handle, KeyGroupsHandle)
        return replace(handle, stream=at)

    result.edit_handle(stream, changed)
    assert_found(result)


def test_a_surplus_file_in_the_target_is_found(result_of: ResultOf) -> None:
    result = result_of(CANONICAL)
    (result.target / "notes.txt").write_text("x")
    error = assert_found(result)
    assert "notes.txt" in str(error)


@pytest.mark.parametrize("size", [0, 1, 100, -1])
def test_a_cut_candidate_is_found(size: int, result_of: ResultOf) -> None:
    result = result_of(CANONICAL)
    result.candidate.write_bytes(result.candidate.read_bytes()[:size])
    assert_found(result)


def test_no_flipped_byte_of_the_candidate_goes_unnoticed(result_of: ResultOf) -> None:
    """Names of inline states and ids of handles are ours to choose; every other byte says something about state."""
    result = result_of("2-windows")
    data = result.candidate.read_bytes()
    for at in range(0, len(data), 13):
        result.candidate.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        assert_found(result)


def test_a_published_result_is_validated_without_its_plan(tmp_path: Path) -> None:
    target = tmp_path / "target"
    plan = plan_rescale(snapshots.directory(HEAP), str(target), ["3"])
    move(plan)
    certificate = validate_coverage(plan, shared_spark())
    publish(plan)
    again = validate_published(plan.source, str(target), [], [], shared_spark())
    assert again["candidate_sha256"] == certificate["candidate_sha256"]
    assert again.keys() == certificate.keys() == fields("validate")
    assert again["operators"] == certificate["operators"]
    moved = tmp_path / "moved"
    target.rename(moved)
    assert validate_published(plan.source, str(moved), [], [], shared_spark())["operators"] == certificate["operators"]
    metadata = moved / "_metadata"
    metadata.write_bytes(metadata.read_bytes().replace(b"\0\0\0\x03", b"\0\0\0\x02", 1))
    with pytest.raises(IntegrityError):
        validate_published(plan.source, str(moved), [], [], shared_spark())


def test_a_missing_half_is_found(tmp_path: Path) -> None:
    plan = plan_rescale(snapshots.directory("2-windows"), str(tmp_path / "target"), ["3"])
    store_plan(plan)
    claim(plan)
    with pytest.raises(IntegrityError, match="half was not written"):
        validate_coverage(plan, shared_spark())
