"""A finished, unpublished result. Tests plant faults in its files, or in the candidate, which names the files.

A planted fault is one that a bug in a run could cause: bytes, lengths and offsets are consistent, unless the fault is
an inconsistency.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from rescale.execution.compare.validation.validation import compare_snapshots, open_result, validate_result
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.metadata.checkpoint_metadata import Metadata, OperatorState, Subtask, SubtaskState
from rescale.flink.metadata.handles import KeyGroupsHandle, OperatorHandle, OperatorStateOffsets, RelativeFileStream
from rescale.flink.metadata.writer import write_metadata
from rescale.flink.slot import Slot
from rescale.runstate.certificate import CertifiedOperator
from rescale.snapshot.keyed_state import KeyedStream
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import ElementStream, Operator, Snapshot
from rescale.snapshot.reading.opening import open_candidate, open_snapshot

_FIELDS = {
    Slot.KEYED: "managed_keyed",
    Slot.RAW_KEYED: "raw_keyed",
    Slot.OPERATOR: "managed_operator",
    Slot.RAW_OPERATOR: "raw_operator",
}


class Place(NamedTuple):
    """A stream of the result, and its file."""

    operator: int
    slot: Slot
    stream: KeyedStream | ElementStream
    path: Path

    def read(self, extent: Extent) -> bytes:
        return self.path.read_bytes()[extent.start : extent.start + extent.length]

    def flip(self, at: int, bit: int = 0) -> None:
        data = bytearray(self.path.read_bytes())
        data[at] ^= 1 << bit
        self.path.write_bytes(data)

    def cut(self, size: int) -> None:
        self.path.write_bytes(self.path.read_bytes()[:size])


@dataclass(frozen=True)
class Result:
    """A result of the snapshot at `source`: the directory `target`, and the file `candidate`.

    `key_hashes` has the key hash of each rehashed operator, by operator id.
    """

    source: str
    target: Path
    candidate: Path
    key_hashes: Mapping[str, str] = field(default_factory=dict)

    def validate(self) -> list[CertifiedOperator]:
        """Validate in this process, with the comparison of the validation step."""
        result = open_result(str(self.candidate), str(self.target))
        return validate_result(compare_snapshots(open_snapshot(self.source), result, self.key_hashes), InProcessTasks())

    def opened(self) -> Snapshot:
        return open_candidate(str(self.candidate), str(self.target))

    def places(self, *slots: Slot) -> list[Place]:
        """Return the streams in these slots of all operators and subtasks."""
        result = self.opened()
        return [
            Place(i, slot, stream, Path(result.files[stream.extent.file][0]))
            for i, operator in enumerate(result.operators)
            for slot in slots
            for stream in streams_of(operator, slot)
        ]

    def edit(self, change: Callable[[Metadata], Metadata]) -> None:
        """Change the candidate."""
        self.candidate.write_bytes(write_metadata(change(self.opened().metadata)))

    def edit_operator(self, number: int, change: Callable[[OperatorState], OperatorState]) -> None:
        def changed(metadata: Metadata) -> Metadata:
            operators = list(metadata.operators)
            operators[number] = change(operators[number])
            return replace(metadata, operators=tuple(operators))

        self.edit(changed)

    def edit_handle(self, place: Place, change: Callable[[object], object]) -> None:
        """Change the handle of a stream; if `change` returns None, the handle is removed."""

        def changed_subtask(subtask: Subtask) -> Subtask:
            if subtask.index != place.stream.subtask:
                return subtask
            state = subtask.state or SubtaskState()
            field = _FIELDS[place.slot]
            return replace(subtask, state=replace(state, **{field: change(getattr(state, field))}))

        self.edit_operator(
            place.operator, lambda entry: replace(entry, subtasks=tuple(map(changed_subtask, entry.subtasks)))
        )

    def groups(self, place: Place) -> list[bytes | None]:
        """Return the contents of a keyed stream's key groups; None for an absent one."""
        assert isinstance(place.stream, KeyedStream)
        return [None if extent is None else place.read(extent) for extent in place.stream.groups]

    def write_groups(self, place: Place, groups: list[bytes | None]) -> None:
        """Rewrite a keyed stream with other key groups, and change its handle accordingly."""
        stream = place.stream
        assert isinstance(stream, KeyedStream)
        absent = -1 if stream.framing is Framing.RAW else 0
        ends = [*accumulate((len(group or b"") for group in groups), initial=len(stream.header))]
        offsets = tuple(absent if group is None else start for group, start in zip(groups, ends[:-1], strict=True))

        def changed(handle: object) -> KeyGroupsHandle:
            assert isinstance(handle, KeyGroupsHandle)
            return replace(handle, offsets=offsets, stream=_write(place, b"".join(g or b"" for g in groups)))

        self.edit_handle(place, changed)

    def elements(self, place: Place) -> dict[str, list[bytes]]:
        """Return the elements of an operator-state stream by state."""
        assert isinstance(place.stream, ElementStream)
        return {state.name: list(map(place.read, state.elements)) for state in place.stream.states}

    def write_elements(self, place: Place, elements: dict[str, list[bytes]]) -> None:
        """Rewrite an operator-state stream with other elements; states that are not in `elements` are removed."""
        stream = place.stream
        assert isinstance(stream, ElementStream)
        states, position = [], len(stream.header)
        for state in stream.states:
            if state.name in elements:
                starts = [*accumulate(map(len, elements[state.name]), initial=position)]
                states.append(OperatorStateOffsets(state.name, state.mode, tuple(starts[:-1])))
                position = starts[-1]
        body = b"".join(element for state in states for element in elements[state.name])

        def changed(handle: object) -> OperatorHandle:
            assert isinstance(handle, OperatorHandle)
            return replace(handle, states=tuple(states), stream=_write(place, body))

        self.edit_handle(place, changed)


def _write(place: Place, body: bytes) -> RelativeFileStream:
    place.path.write_bytes(place.stream.header + body)
    return RelativeFileStream(place.path.name, len(place.stream.header) + len(body))


def streams_of(operator: Operator, slot: Slot) -> tuple[KeyedStream, ...] | tuple[ElementStream, ...]:
    return {
        Slot.KEYED: operator.keyed,
        Slot.RAW_KEYED: operator.raw_keyed,
        Slot.OPERATOR: operator.element_streams,
        Slot.RAW_OPERATOR: operator.raw_element_streams,
    }[slot]
