"""The validator finds every fault planted in metadata or beside the files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rescale.flink.metadata.checkpoint_metadata import MasterState, Metadata, OperatorState
from rescale.flink.metadata.handles import FileStream, InlineStream, KeyGroupsHandle, RelativeFileStream
from rescale.flink.slot import Slot
from support.finished import CANONICAL, RAW, SOURCE, ResultOf, assert_found, keyed_place
from support.slow import slow


def changes_of_field(field: str) -> Callable[[object], Callable[[Metadata], Metadata]]:
    """Return a change of one field of every operator."""

    def change_to(value: object) -> Callable[[Metadata], Metadata]:
        def change(metadata: Metadata) -> Metadata:
            return replace(metadata, operators=tuple(replace(entry, **{field: value}) for entry in metadata.operators))

        return change

    return change_to


def change_of_first_keyed(change: Callable[[OperatorState], OperatorState]) -> Callable[[Metadata], Metadata]:
    """Return a change of the first operator with keyed state."""

    def with_changed_operator(metadata: Metadata) -> Metadata:
        operators = list(metadata.operators)
        i = next(
            i for i, entry in enumerate(operators) if any(s.state and s.state.managed_keyed for s in entry.subtasks)
        )
        operators[i] = change(operators[i])
        return replace(metadata, operators=tuple(operators))

    return with_changed_operator


def exchange_subtasks(entry: OperatorState) -> OperatorState:
    first, other, *rest = entry.subtasks
    return replace(entry, subtasks=(replace(first, state=other.state), replace(other, state=first.state), *rest))


METADATA_FAULTS: dict[str, Callable[[Metadata], Metadata]] = {
    "parallelism larger": change_of_first_keyed(lambda entry: replace(entry, parallelism=entry.parallelism + 1)),
    "parallelism smaller": change_of_first_keyed(
        lambda entry: replace(entry, parallelism=entry.parallelism - 1, subtasks=entry.subtasks[:-1])
    ),
    "all parallelism larger": changes_of_field("parallelism")(5),
    "max parallelism": change_of_first_keyed(lambda entry: replace(entry, max_parallelism=entry.max_parallelism * 2)),
    "uid": changes_of_field("uid")("another"),
    "name": changes_of_field("name")("another"),
    "coordinator state changed": changes_of_field("coordinator")(InlineStream("coordinator", b"other")),
    "coordinator state lost": changes_of_field("coordinator")(None),
    "operator id": change_of_first_keyed(lambda entry: replace(entry, operator_id="0" * 32)),
    "operator lost": lambda metadata: replace(metadata, operators=metadata.operators[1:]),
    "operator doubled": lambda metadata: replace(metadata, operators=(*metadata.operators, metadata.operators[0])),
    "fully finished": change_of_first_keyed(lambda entry: replace(entry, fully_finished=True, subtasks=())),
    "subtasks exchanged": change_of_first_keyed(exchange_subtasks),
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
    "path_template",
    ["../{name}", "sub/../../{name}", "{outside}/{name}", "s3://bucket/{name}", "hdfs://name/{name}", "not there"],
)
def test_handle_that_points_outside_the_target_is_found(
    path_template: str, result_of: ResultOf, tmp_path: Path
) -> None:
    result = result_of(CANONICAL)
    place = keyed_place(result, Slot.KEYED)
    path = place.path
    outside = tmp_path / "outside"
    outside.mkdir()
    for folder in (tmp_path, outside):
        shutil.copy(path, folder)
    stored_path = path_template.format(name=path.name, outside=outside)
    size = place.stream.extent.length
    outside_stream = (
        FileStream(stored_path, size)
        if stored_path.startswith("/") or ":" in stored_path
        else RelativeFileStream(stored_path, size)
    )

    def with_outside_stream(handle: object) -> KeyGroupsHandle:
        assert isinstance(handle, KeyGroupsHandle)
        return replace(handle, stream=outside_stream)

    result.edit_handle(place, with_outside_stream)
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


@pytest.mark.parametrize("step", [slow(13), 131])
def test_flipped_bits_of_the_candidate_are_found(step: int, result_of: ResultOf) -> None:
    """Every byte counts but names of inline states and ids of handles, which Rescale chooses."""
    result = result_of("2-windows")
    data = result.candidate.read_bytes()
    for position in range(0, len(data), step):
        result.candidate.write_bytes(
            data[:position] + bytes([data[position] ^ 1 << position % 8]) + data[position + 1 :]
        )
        assert_found(result)
