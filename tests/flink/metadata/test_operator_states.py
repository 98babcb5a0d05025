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

OLDEST = FIRST_VERSION_WITH_COORDINATORS - 1
HANDLE = OperatorHandle(
    (OperatorStateOffsets("list", DistributionMode.SPLIT_DISTRIBUTE, (0, 4)),), InlineStream("x", b"12345678"), None
)
WITH_STATE = Subtask(1, False, SubtaskState(managed_operator=HANDLE))
FINISHED = Subtask(0, True, None)
PLAIN = OperatorState("ab" * 16, "", "", 2, 128, None, (WITH_STATE,), fully_finished=False)


def written(*operators: OperatorState, version: int = FIRST_VERSION_WITH_COORDINATORS) -> bytes:
    out = ByteWriter()
    write_operator_states(out, operators, version)
    return bytes(out.data)


def read(data: bytes, version: int = FIRST_VERSION_WITH_COORDINATORS) -> tuple[OperatorState, ...]:
    reader = ByteReader(data, "/place")
    operators = read_operator_states(reader, version)
    assert reader.remaining == 0
    return operators


@pytest.mark.parametrize(
    ("operator", "first"),
    [
        (PLAIN, OLDEST),
        (replace(PLAIN, coordinator=InlineStream("c", b"coordinator")), FIRST_VERSION_WITH_COORDINATORS),
        (replace(PLAIN, subtasks=(FINISHED, WITH_STATE)), FIRST_VERSION_WITH_COORDINATORS),
        (replace(PLAIN, subtasks=(), fully_finished=True), FIRST_VERSION_WITH_COORDINATORS),
        (replace(PLAIN, name="Counts", uid="counts"), FIRST_VERSION_WITH_NAMES),
    ],
)
def test_operators_are_read_as_written_from_the_first_version_with_a_place_for_them(
    operator: OperatorState, first: int
) -> None:
    for version in range(first, FIRST_VERSION_WITH_NAMES + 1):
        assert read(written(operator, version=version), version) == (operator,)
    for version in range(OLDEST, first):
        with pytest.raises(UnsupportedError, match=f"metadata version {version} has no place for") as caught:
            written(operator, version=version)
        assert caught.value.operator == operator.operator_id


def with_parallelism(parallelism: int, maximum: int) -> Callable[[], bytes]:
    return lambda: written(replace(PLAIN, parallelism=parallelism, max_parallelism=maximum))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (lambda: written(PLAIN, PLAIN), "an operator is listed twice"),
        (lambda: written(replace(PLAIN, subtasks=(WITH_STATE, WITH_STATE))), "a subtask is listed twice"),
        (lambda: written(replace(PLAIN, subtasks=(replace(WITH_STATE, index=2),))), "a subtask index out of bounds"),
        (
            lambda: written(replace(PLAIN, coordinator=InlineStream("c", b"x"), subtasks=(), fully_finished=True)),
            "a fully finished operator with coordinator state",
        ),
        (with_parallelism(0, 128), "an impossible parallelism or max parallelism"),
        (with_parallelism(129, 128), "an impossible parallelism or max parallelism"),
        (with_parallelism(2, 32769), "an impossible parallelism or max parallelism"),
    ],
)
def test_impossible_entries_name_the_operator(data: Callable[[], bytes], what: str) -> None:
    with pytest.raises(SnapshotError, match=what) as caught:
        read(data())
    assert caught.value.operator == PLAIN.operator_id
    assert caught.value.path == "/place"


def test_fields_of_version_2_have_the_values_that_flink_writes() -> None:
    """In an operator, a chain length follows the two parallelisms; in a subtask, a duration and a number come first."""
    data = bytearray(written(replace(PLAIN, subtasks=(Subtask(1, False, SubtaskState()),)), version=OLDEST))
    chain, duration = 4 + 16 + 8, 4 + 16 + 8 + 4 + 4 + 4
    for at, what in ((chain, "a chain length that Flink never writes"), (duration, "a duration that Flink never")):
        changed = data.copy()
        changed[at + 3] ^= 4
        with pytest.raises(SnapshotError, match=what):
            read(bytes(changed), OLDEST)
    data[duration + 8 + 3] = 2
    with pytest.raises(UnsupportedError, match=r"state of Flink 1\.1") as caught:
        read(bytes(data), OLDEST)
    assert caught.value.found == "2 legacy states"


def test_a_slot_has_one_handle_at_most() -> None:
    data = written(replace(PLAIN, subtasks=(Subtask(1, False, SubtaskState()),)))
    slot = len(data) - 4 - 4 - 2 - 4 - 4  # at the end: two empty slots, two empty keyed handles, and no channels
    for changed, what in ((2, "a slot with more than one handle"), (1, "a slot counts one handle, but contains none")):
        damaged = bytearray(data)
        damaged[slot + 3] = changed
        with pytest.raises(SnapshotError, match=what):
            read(bytes(damaged))
