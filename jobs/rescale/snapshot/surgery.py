"""Surgery on a snapshot: renamed, dropped and restarted operators, dropped states and old rows, changed Kafka offsets.

Files of state do not name their operator. Only the operator's entry in `_metadata` has its id, which is the hash of the
uid (`StreamGraphHasherV2`). So renaming an operator changes the id in its entry, and keeps streams, coordinator,
finished subtasks, parallelism and max parallelism. Dropping an operator removes its entry. Restarting an operator
removes the entries of its finished subtasks, and the mark of an operator that has finished as a whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rescale.flink.metadata.checkpoint_metadata import FIRST_VERSION_WITH_NAMES
from rescale.snapshot.dropped_states import DroppedState, with_stored_bytes, without_states
from rescale.snapshot.kafka.changed import with_kafka_changes
from rescale.snapshot.kafka.changes import KafkaChange
from rescale.snapshot.locate import WRITTEN_FILE_NUMBER
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.old_rows import OldRows, without_old_rows
from rescale.snapshot.reading.handle_streams import bytes_of


@dataclass(frozen=True)
class Renamed:
    """An operator that gets another id, which follows from the new `uid`; `uid` is "" if only the new id is known."""

    operator_id: str
    label: str
    new_operator_id: str
    new_label: str
    uid: str


@dataclass(frozen=True)
class LostState:
    """A state of a dropped operator; `elements` is the number of its elements, None if it is not operator state."""

    name: str
    type: str
    elements: int | None


NOT_READ = LostState("state", "in files that cannot be read", None)
"""State of a dropped operator that could not be read, such as state in missing files."""


@dataclass(frozen=True)
class Dropped:
    """An operator that the result leaves out; `bytes` counts all its state and the state of its coordinator."""

    operator_id: str
    label: str
    bytes: int
    states: tuple[LostState, ...]


@dataclass(frozen=True)
class Restarted:
    """An operator whose finished subtasks run again: `finished` of `parallelism` subtasks.

    `assigned` tells whether a coordinator with state in the snapshot assigns splits to the subtasks.
    """

    operator_id: str
    label: str
    finished: int
    parallelism: int
    assigned: bool


@dataclass(frozen=True)
class Surgery:
    """Declared differences of a result from its source, besides parallelism, max parallelism and format."""

    renamed: tuple[Renamed, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    kafka: tuple[KafkaChange, ...] = ()
    dropped_states: tuple[DroppedState, ...] = ()
    restarted: tuple[Restarted, ...] = ()
    old_rows: tuple[OldRows, ...] = ()

    def __bool__(self) -> bool:
        changes = (self.renamed, self.dropped, self.kafka, self.dropped_states, self.restarted, self.old_rows)
        return any(changes)

    @property
    def new_ids(self) -> dict[str, str]:
        """New ids of the renamed operators, by old id."""
        return {operator.operator_id: operator.new_operator_id for operator in self.renamed}

    @property
    def dropped_ids(self) -> tuple[str, ...]:
        return tuple(operator.operator_id for operator in self.dropped)


NO_SURGERY = Surgery()


def apply_surgery(snapshot: Snapshot, surgery: Surgery) -> Snapshot:
    """Return the snapshot after the surgery; it has the same files, and its changed elements are in `written_bytes`.

    Files that only dropped operators had do not count as missing. The function reads the offsets of Kafka sources that
    change, and raises `SnapshotError` if they cannot be read.
    """
    if not surgery:
        return snapshot
    snapshot = with_kafka_changes(snapshot, surgery.kafka)
    renaming_by_id = {operator.operator_id: operator for operator in surgery.renamed}
    holds_uids = snapshot.metadata.version >= FIRST_VERSION_WITH_NAMES
    dropped_states_by_id: dict[str, set[str]] = defaultdict(set)
    for state in surgery.dropped_states:
        dropped_states_by_id[state.operator_id].add(state.name)
    old_rows_by_id: dict[str, list[OldRows]] = defaultdict(list)
    for rows in surgery.old_rows:
        old_rows_by_id[rows.operator_id].append(rows)
    restarted_ids = {operator.operator_id for operator in surgery.restarted}
    operators = tuple(
        _renamed(
            without_old_rows(
                without_states(operator, dropped_states_by_id[operator.operator_id]),
                old_rows_by_id[operator.operator_id],
            ),
            renaming_by_id,
            holds_uids=holds_uids,
        )
        for operator in (_restarted(o) if o.operator_id in restarted_ids else o for o in snapshot.operators)
        if operator.operator_id not in surgery.dropped_ids
    )
    metadata = replace(snapshot.metadata, operators=tuple(operator.entry for operator in operators))
    return replace(snapshot, metadata=metadata, operators=operators, missing_files=_missing_files(snapshot, operators))


def with_stored_sizes(surgery: Surgery, snapshot: Snapshot) -> Surgery:
    """Return the surgery with `stored_bytes` for dropped states.

    `snapshot` is the snapshot after the surgery, with its SST files (`with_tables`).
    """
    operator_by_id = {operator.operator_id: operator for operator in snapshot.operators}
    states = tuple(
        with_stored_bytes(state, operator_by_id[surgery.new_ids.get(state.operator_id, state.operator_id)])
        for state in surgery.dropped_states
    )
    return replace(surgery, dropped_states=states)


def as_restarted(operator: Operator) -> Restarted:
    """Return an operator as a restarted one, even if none of its subtasks has finished."""
    entry = operator.entry
    finished_count = sum(subtask.finished for subtask in entry.subtasks)
    return Restarted(
        entry.operator_id,
        operator.label,
        entry.parallelism if entry.fully_finished else finished_count,
        entry.parallelism,
        entry.coordinator is not None,
    )


def as_dropped(operator: Operator) -> Dropped:
    """Return an operator as a dropped one, with its bytes according to handles, and its states according to headers."""
    entry = operator.entry
    coordinator_bytes = len(entry.coordinator.data) if entry.coordinator is not None else 0
    states = (*_lost_states(operator), *(() if operator.is_whole else (NOT_READ,)))
    return Dropped(entry.operator_id, operator.label, bytes_of(entry) + coordinator_bytes, states)


def _lost_states(operator: Operator) -> Iterator[LostState]:
    yield from dict.fromkeys(LostState(state.name, state.state_type, None) for state in operator.keyed_states)
    if operator.is_whole and any(header is None for header in operator.keyed_headers):
        yield LostState("keyed state", "of an unknown serializer", None)
    if operator.raw_keyed_without_timers:
        yield LostState("raw keyed state", "in the operator's own format", None)
    for prefix, streams in (("", operator.element_streams), ("raw ", operator.raw_element_streams)):
        element_counts: dict[tuple[str, str], int] = defaultdict(int)
        for stream in streams:
            for state in stream.states:
                element_counts[state.name, prefix + state.mode.name] += len(state.elements)
        for (name, mode), element_count in element_counts.items():
            yield LostState(name, mode, element_count)
    if operator.other_keyed:
        yield LostState("keyed state", type(operator.other_keyed[0].handle).__name__, None)
    if operator.has_channel_state:
        yield LostState("records in flight", "channel state", None)
    if operator.entry.coordinator is not None:
        yield LostState("coordinator", "COORDINATOR", None)


def _missing_files(snapshot: Snapshot, operators: Sequence[Operator]) -> tuple[str, ...]:
    """Return the missing files of these operators.

    Returns all missing files if one of the operators has `other_keyed` or channel state, whose files are not known.
    """
    if any(operator.other_keyed or operator.has_channel_state for operator in operators):
        return snapshot.missing_files
    files_of_operators = {
        snapshot.files[number][0]
        for operator in operators
        for number in _file_numbers(operator)
        if number != WRITTEN_FILE_NUMBER
    }
    return tuple(uri for uri in snapshot.missing_files if uri in files_of_operators)


def _file_numbers(operator: Operator) -> Iterator[int]:
    yield from (stream.extent.file for stream in operator.raw_keyed)
    yield from (stream.extent.file for stream in (*operator.element_streams, *operator.raw_element_streams))
    for holder in operator.managed_keyed:
        yield from holder.file_numbers


def _restarted(operator: Operator) -> Operator:
    """Return the operator with its finished subtasks removed: in the restored job, they run again without state."""
    entry = operator.entry
    subtasks = tuple(subtask for subtask in entry.subtasks if not subtask.finished)
    return replace(operator, entry=replace(entry, fully_finished=False, subtasks=subtasks))


def _renamed(operator: Operator, renaming_by_id: Mapping[str, Renamed], *, holds_uids: bool) -> Operator:
    """Return the operator with its new id; `holds_uids` tells whether entries of this metadata version hold uids."""
    renaming = renaming_by_id.get(operator.operator_id)
    if renaming is None:
        return operator
    entry = replace(operator.entry, operator_id=renaming.new_operator_id, uid=renaming.uid if holds_uids else "")
    return replace(operator, entry=entry, label=renaming.new_label)
