"""Operators of `_metadata`: what each version can contain, and entries that Flink never writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rescale.flink.encoding.binary import ByteReader, ByteWriter
from rescale.flink.metadata.checkpoint_metadata import (
    FIRST_VERSION_WITH_COORDINATORS,
    FIRST_VERSION_WITH_NAMES,
    OperatorState,
    Subtask,
    SubtaskState,
)
from rescale.flink.metadata.handles import DistributionMode, InlineStream, OperatorHandle, OperatorStateOffsets
from rescale.flink.metadata.operator_states import read_operator_states, write_operator_states
from rescale.text.errors import SnapshotError, UnsupportedError

OLDEST_VERSION = FIRST_VERSION_WITH_COORDINATORS - 1
HANDLE = OperatorHandle(
    (OperatorStateOffsets("list", DistributionMode.SPLIT_DISTRIBUTE, (0, 4)),), InlineStream("x", b"12345678"), None
)
SUBTASK_WITH_STATE = Subtask(1, False, SubtaskState(managed_operator=HANDLE))
FINISHED_SUBTASK = Subtask(0, True, None)
PLAIN_OPERATOR = OperatorState("ab" * 16, "", "", 2, 128, None, (SUBTASK_WITH_STATE,), fully_finished=False)


def operator_bytes(*operators: OperatorState, version: int = FIRST_VERSION_WITH_COORDINATORS) -> bytes:
    out = ByteWriter()
    write_operator_states(out, operators, version)
    return bytes(out.data)


def read(data: bytes, version: int = FIRST_VERSION_WITH_COORDINATORS) -> tuple[OperatorState, ...]:
    reader = ByteReader(data, "/place")
    operators = read_operator_states(reader, version)
    assert reader.remaining == 0
    return operators


@pytest.mark.parametrize(
    ("operator", "first_version"),
    [
        (PLAIN_OPERATOR, OLDEST_VERSION),
        (replace(PLAIN_OPERATOR, coordinator=InlineStream("c", b"coordinator")), FIRST_VERSION_WITH_COORDINATORS),
        (replace(PLAIN_OPERATOR, subtasks=(FINISHED_SUBTASK, SUBTASK_WITH_STATE)), FIRST_VERSION_WITH_COORDINATORS),
        (replace(PLAIN_OPERATOR, subtasks=(), fully_finished=True), FIRST_VERSION_WITH_COORDINATORS),
        (replace(PLAIN_OPERATOR, name="Counts", uid="counts"), FIRST_VERSION_WITH_NAMES),
    ],
)
def test_operators_are_read_as_written_from_the_first_version_with_a_place_for_them(
    operator: OperatorState, first_version: int
) -> None:
    for version in range(first_version, FIRST_VERSION_WITH_NAMES + 1):
        assert read(operator_bytes(operator, version=version), version) == (operator,)
    for version in range(OLDEST_VERSION, first_version):
        with pytest.raises(UnsupportedError, match=f"metadata version {version} has no place for") as caught:
            operator_bytes(operator, version=version)
        assert caught.value.operator == operator.operator_id


def operator_with_parallelism(parallelism: int, maximum: int) -> Callable[[], bytes]:
    return lambda: operator_bytes(replace(PLAIN_OPERATOR, parallelism=parallelism, max_parallelism=maximum))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (lambda: operator_bytes(PLAIN_OPERATOR, PLAIN_OPERATOR), "an operator is listed twice"),
        (
            lambda: operator_bytes(replace(PLAIN_OPERATOR, subtasks=(SUBTASK_WITH_STATE, SUBTASK_WITH_STATE))),
            "a subtask is listed twice",
        ),
        (
            lambda: operator_bytes(replace(PLAIN_OPERATOR, subtasks=(replace(SUBTASK_WITH_STATE, index=2),))),
            "a subtask index out of bounds",
        ),
        (
            lambda: operator_bytes(
                replace(PLAIN_OPERATOR, coordinator=InlineStream("c", b"x"), subtasks=(), fully_finished=True)
            ),
            "a fully finished operator with coordinator state",
        ),
        (operator_with_parallelism(0, 128), "an impossible parallelism or max parallelism"),
        (operator_with_parallelism(129, 128), "an impossible parallelism or max parallelism"),
        (operator_with_parallelism(2, 32769), "an impossible parallelism or max parallelism"),
    ],
)
def test_impossible_entries_name_the_operator(data: Callable[[], bytes], what: str) -> None:
    with pytest.raises(SnapshotError, match=what) as caught:
        read(data())
    assert caught.value.operator == PLAIN_OPERATOR.operator_id
    assert caught.value.path == "/place"


def test_fields_of_version_2_have_the_values_that_flink_writes() -> None:
    """In an operator, a chain length follows the two parallelisms; in a subtask, a duration and a number come first."""
    data = bytearray(
        operator_bytes(replace(PLAIN_OPERATOR, subtasks=(Subtask(1, False, SubtaskState()),)), version=OLDEST_VERSION)
    )
    chain_offset, duration_offset = 4 + 16 + 8, 4 + 16 + 8 + 4 + 4 + 4
    for at, what in (
        (chain_offset, "a chain length that Flink never writes"),
        (duration_offset, "a duration that Flink never"),
    ):
        changed_data = data.copy()
        changed_data[at + 3] ^= 4
        with pytest.raises(SnapshotError, match=what):
            read(bytes(changed_data), OLDEST_VERSION)
    data[duration_offset + 8 + 3] = 2
    with pytest.raises(UnsupportedError, match=r"state of Flink 1\.1") as caught:
        read(bytes(data), OLDEST_VERSION)
    assert caught.value.found == "2 legacy states"


def test_a_slot_has_one_handle_at_most() -> None:
    data = operator_bytes(replace(PLAIN_OPERATOR, subtasks=(Subtask(1, False, SubtaskState()),)))
    slot_offset = len(data) - 4 - 4 - 2 - 4 - 4  # at the end: two empty slots, two empty keyed handles, and no channels
    for handle_count, what in (
        (2, "a slot with more than one handle"),
        (1, "a slot counts one handle, but contains none"),
    ):
        damaged_data = bytearray(data)
        damaged_data[slot_offset + 3] = handle_count
        with pytest.raises(SnapshotError, match=what):
            read(bytes(damaged_data))
