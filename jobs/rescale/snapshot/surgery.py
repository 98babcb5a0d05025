"""A snapshot as it would be if some operators were called otherwise, and others, or states of them, had never been.

Files of state do not say whose they are: only the entry in `_metadata` does, by an id that is hashed of the uid
(`StreamGraphHasherV2`). So an operator with another id is another entry, and all that belongs to it goes along: its
streams, coordinator, finished subtasks and shape. An operator without an entry has no state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rescale.flink.metadata.checkpoint_metadata import FIRST_VERSION_WITH_NAMES
from rescale.snapshot.dropped_states import DroppedState, with_stored_bytes, without_states
from rescale.snapshot.handle_streams import bytes_of
from rescale.snapshot.kafka.changed import with_kafka_changes
from rescale.snapshot.kafka.changes import KafkaChange
from rescale.snapshot.locate import WRITTEN
from rescale.snapshot.model import Operator, Snapshot


@dataclass(frozen=True)
class Renamed:
    """An operator that gets another id: that of the `uid`, which is "" where only the id is known.

    `label` and `new_label` are what it was called and will be.
    """

    operator_id: str
    label: str
    new_operator_id: str
    new_label: str
    uid: str


@dataclass(frozen=True)
class LostState:
    """A state of an operator that is left out; `elements` are counted of operator state alone."""

    name: str
    type: str
    elements: int | None


NOT_READ = LostState("state", "in files that cannot be read", None)
"""Of an operator that is not whole."""


@dataclass(frozen=True)
class Dropped:
    """An operator that is left out; `bytes` are those of all its state and of its coordinator's."""

    operator_id: str
    label: str
    bytes: int
    states: tuple[LostState, ...]


@dataclass(frozen=True)
class Surgery:
    """What a result is declared to have otherwise than its source, besides shape and format."""

    renamed: tuple[Renamed, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    kafka: tuple[KafkaChange, ...] = ()
    dropped_states: tuple[DroppedState, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.renamed or self.dropped or self.kafka or self.dropped_states)

    @property
    def new_ids(self) -> dict[str, str]:
        """By the old operator id."""
        return {one.operator_id: one.new_operator_id for one in self.renamed}

    @property
    def dropped_ids(self) -> tuple[str, ...]:
        return tuple(one.operator_id for one in self.dropped)

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        dropped = [{**asdict(one), "states": [asdict(state) for state in one.states]} for one in self.dropped]
        renamed, kafka = ([asdict(one) for one in changed] for changed in (self.renamed, self.kafka))
        states = [asdict(one) for one in self.dropped_states]
        return {"renamed": renamed, "dropped": dropped, "kafka": kafka, "dropped_states": states}


NO_SURGERY = Surgery()


def operated(snapshot: Snapshot, surgery: Surgery) -> Snapshot:
    """The snapshot after the surgery; its files are those of the one before, and its bytes but for what changes.

    A file that is gone is not missing any more if only operators had it that are left out. What Kafka sources hold that
    change is read.
    """
    if not surgery:
        return snapshot
    snapshot = with_kafka_changes(snapshot, surgery.kafka)
    dropped = {one.operator_id for one in surgery.dropped}
    renamed = {one.operator_id: one for one in surgery.renamed}
    named = snapshot.metadata.version >= FIRST_VERSION_WITH_NAMES
    left_out: dict[str, set[str]] = defaultdict(set)
    for one in surgery.dropped_states:
        left_out[one.operator_id].add(one.name)
    operators = tuple(
        _renamed(without_states(operator, left_out[operator.operator_id]), renamed, named=named)
        for operator in snapshot.operators
        if operator.operator_id not in dropped
    )
    metadata = replace(snapshot.metadata, operators=tuple(operator.entry for operator in operators))
    return replace(snapshot, metadata=metadata, operators=operators, missing=_missing(snapshot, operators))


def looked_at(surgery: Surgery, snapshot: Snapshot) -> Surgery:
    """The surgery, with what dropped states take in RocksDB files; `snapshot` is after it, and its files are listed."""
    by_id = {operator.operator_id: operator for operator in snapshot.operators}
    states = tuple(
        with_stored_bytes(one, by_id[surgery.new_ids.get(one.operator_id, one.operator_id)])
        for one in surgery.dropped_states
    )
    return replace(surgery, dropped_states=states)


def what_is_lost(operator: Operator) -> Dropped:
    """All that an operator has: its bytes by handles, and its states as far as headers can be read."""
    entry = operator.entry
    coordinator = len(entry.coordinator.data) if entry.coordinator is not None else 0
    states = (*_states(operator), *(() if operator.is_whole else (NOT_READ,)))
    return Dropped(entry.operator_id, operator.label, bytes_of(entry) + coordinator, states)


def _states(operator: Operator) -> Iterator[LostState]:
    headers = [header for header in operator.keyed_headers if header is not None]
    yield from dict.fromkeys(LostState(one.name, one.state_type, None) for header in headers for one in header.states)
    if operator.is_whole and any(header is None for header in operator.keyed_headers):
        yield LostState("keyed state", "of a serializer that is not known", None)
    if operator.own_raw_keyed:
        yield LostState("raw keyed state", "in a format of the operator's own", None)
    for raw, streams in (("", operator.operator), ("raw ", operator.raw_operator)):
        elements: dict[tuple[str, str], int] = defaultdict(int)
        for stream in streams:
            for state in stream.states:
                elements[state.name, raw + state.mode.name] += len(state.elements)
        for (name, mode), number in elements.items():
            yield LostState(name, mode, number)
    if operator.other_keyed:
        yield LostState("keyed state", type(operator.other_keyed[0].handle).__name__, None)
    if operator.has_channel_state:
        yield LostState("records in flight", "channel state", None)
    if operator.entry.coordinator is not None:
        yield LostState("coordinator", "COORDINATOR", None)


def _missing(snapshot: Snapshot, operators: Sequence[Operator]) -> tuple[str, ...]:
    """Which of the missing files these operators still have; where some are not read, it may be any of them."""
    if any(operator.other_keyed or operator.has_channel_state for operator in operators):
        return snapshot.missing
    had = {snapshot.files[number][0] for operator in operators for number in _files(operator) if number != WRITTEN}
    return tuple(uri for uri in snapshot.missing if uri in had)


def _files(operator: Operator) -> Iterator[int]:
    yield from (stream.extent.file for stream in operator.raw_keyed)
    yield from (stream.extent.file for stream in (*operator.operator, *operator.raw_operator))
    for holder in operator.managed_keyed:
        yield from holder.file_numbers


def _renamed(operator: Operator, renamed: Mapping[str, Renamed], *, named: bool) -> Operator:
    """`named`: whether entries hold uids."""
    one = renamed.get(operator.operator_id)
    if one is None:
        return operator
    entry = replace(operator.entry, operator_id=one.new_operator_id, uid=one.uid if named else "")
    return replace(operator, entry=entry, label=one.new_label)
