"""Judges whether another release of Flink restores a snapshot: each operator and each state, with reasons.

Rescale judges only the bytes of the snapshot. The job in that release must still have operators with the same uids, and
register the same states with the same types. If a header names a class that the release lacks, all states in the header
fail. For other reasons a state fails alone, except in the native format of the hashmap backend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from rescale.flink.kafka.source import READER_STATE
from rescale.flink.keyed.header import KeyedHeader, read_keyed_header
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.metadata.checkpoint_metadata import RELEASES_BY_VERSION, Metadata
from rescale.flink.metadata.handles import EmptySegmentStream, SegmentStream
from rescale.flink.operator_state import OperatorStateHeader, read_operator_state_header
from rescale.flink.release_line import FIRST_WITH_MERGED_FILES, ReleaseLine, major_of_writer
from rescale.flink.serializers.release_rules import Reason, Restores, missing_class_reason, reasons
from rescale.flink.serializers.snapshot import UnknownSerializerError
from rescale.flink.state_meta_info import StateMetaInfo
from rescale.flink.state_release_rules import (
    keyed_state_reason,
    operator_state_reason,
    shared_offsets_reason,
    source_reason,
    untyped_state_reason,
)
from rescale.snapshot.kafka.offsets import KafkaKind, KafkaOffsets
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.reading.handle_streams import streams_of

_OUTCOMES_BEST_FIRST = list(Restores)


class RestoreReason(msgspec.Struct, frozen=True):
    """Why another release of Flink does not restore a state, the class of Flink that decides it, and what to do."""

    why: str
    flink_class: str
    way: str


class StateProspect(msgspec.Struct, frozen=True):
    """Whether another release of Flink restores a state; `restores` is a value of `Restores`."""

    name: str
    restores: str
    reason: RestoreReason | None


class OperatorProspect(msgspec.Struct, frozen=True):
    """Whether another release of Flink restores the states of an operator."""

    operator_id: str
    label: str
    restores: str
    states: tuple[StateProspect, ...]


class ReleaseProspects(msgspec.Struct, frozen=True):
    """Whether another release of Flink restores a snapshot; `reason` says why it cannot read the snapshot at all."""

    release: str
    restores: str
    reason: RestoreReason | None
    operators: tuple[OperatorProspect, ...]


class JudgedState(NamedTuple):
    """Prospect of a state, or of other content of an operator; `reason` is None if Flink restores it."""

    name: str
    reason: Reason | None

    @property
    def restores(self) -> Restores:
        return Restores.YES if self.reason is None else self.reason.restores


def prospects(snapshot: Snapshot, line: ReleaseLine, source_offsets: Sequence[KafkaOffsets] = ()) -> ReleaseProspects:
    """Return the prospects of restoring the snapshot on `line`.

    `source_offsets` are the offsets of the Kafka sources, also those that could not be read.
    """
    reason = _reason_of_unread_metadata(snapshot.metadata, line)
    judge = _Judge(line, major_of_writer(snapshot.metadata.version), source_offsets)
    operators = []
    for operator in snapshot.operators:
        states = [JudgedState(state.name, reason or state.reason) for state in judge.states(operator)]
        operators.append(
            OperatorProspect(
                operator.operator_id,
                operator.label,
                _worst_outcome(state.restores for state in states),
                tuple(
                    StateProspect(state.name, state.restores.value, _published_reason(state.reason)) for state in states
                ),
            )
        )
    restores = _worst_outcome(Restores(operator.restores) for operator in operators)
    return ReleaseProspects(str(line), restores, _published_reason(reason), tuple(operators))


def _reason_of_unread_metadata(metadata: Metadata, line: ReleaseLine) -> Reason | None:
    """Return why `line` cannot read the `_metadata` of a snapshot; None if it can."""
    version = metadata.version
    if version > line.metadata_version:
        return Reason(
            Restores.NO,
            f"Flink {line} reads _metadata up to version {line.metadata_version}, and this is version {version}, of "
            f"{RELEASES_BY_VERSION[version]}",
            "MetadataSerializers",
            f"use a snapshot that Flink {line} or an older release wrote, or a newer Flink: metadata cannot be "
            "converted to an older version",
        )
    streams = (stream for entry in metadata.operators for stream in streams_of(entry))
    if line < FIRST_WITH_MERGED_FILES and any(isinstance(s, SegmentStream | EmptySegmentStream) for s in streams):
        return Reason(
            Restores.NO,
            "the job merged the files of this checkpoint (execution.checkpointing.file-merging.enabled), and Flink "
            f"{line} cannot read handles of merged files, which exist from {FIRST_WITH_MERGED_FILES} on",
            "MetadataV2V3SerializerBase",
            "use a savepoint, whose files are never merged; or the result of a run, which has no merged files either",
        )
    return None


def _worst_outcome(restores: Iterable[Restores]) -> str:
    """Return the worst outcome, or `YES` without any state."""
    return max(restores, key=_OUTCOMES_BEST_FIRST.index, default=Restores.YES).value


def _published_reason(reason: Reason | None) -> RestoreReason | None:
    return None if reason is None else RestoreReason(reason.why, reason.flink_class, reason.way)


class _Judge:
    """Judges whether Flink `line` restores state that a Flink of the major version `writer_major` wrote."""

    def __init__(self, line: ReleaseLine, writer_major: int, source_offsets: Sequence[KafkaOffsets]) -> None:
        self._line = line
        self._writer_major = writer_major
        self._offsets_by_id = {offsets.operator.operator_id: offsets for offsets in source_offsets}

    def states(self, operator: Operator) -> tuple[JudgedState, ...]:
        """Return the prospect of each state; of several states with one name, the worst prospect."""
        worst_by_name: dict[str, JudgedState] = {}
        for state in self._judged_states(operator):
            worst_so_far = worst_by_name.setdefault(state.name, state)
            if _OUTCOMES_BEST_FIRST.index(state.restores) > _OUTCOMES_BEST_FIRST.index(worst_so_far.restores):
                worst_by_name[state.name] = state
        return tuple(worst_by_name.values())

    def _judged_states(self, operator: Operator) -> Iterator[JudgedState]:
        holders_by_header = {holder.header or id(holder.parsed): holder for holder in operator.record_holders}
        for holder in holders_by_header.values():
            if holder.parsed is not None:
                yield from self._judged_keyed_states(holder.parsed, holder.framing)
            else:
                yield JudgedState("keyed state", self._reason_of_unread_header(holder.header, read_keyed_header))
        streams_by_header = {(s.header, tuple(state.name for state in s.states)): s for s in operator.element_streams}
        for stream in streams_by_header.values():
            if stream.parsed is not None:
                yield from self._judged_element_states(operator, stream.parsed)
            else:
                reason_unread = self._reason_of_unread_header(stream.header, read_operator_state_header)
                yield from (JudgedState(state.name, reason_unread) for state in stream.states)
        for stream in operator.element_streams:
            if stream.shares_offsets:
                reason_of_offsets = shared_offsets_reason(self._line)
                yield from (JudgedState(state.name, reason_of_offsets) for state in stream.states if state.elements)
        yield from (
            JudgedState(name, untyped_state_reason(name, self._line)) for name in _kinds_without_header(operator)
        )
        if operator.entry.coordinator is not None:
            yield JudgedState("coordinator", self._reason_of_source(operator))

    def _judged_keyed_states(self, header: KeyedHeader, framing: Framing) -> Iterator[JudgedState]:
        """Yield the prospects of the states in a header; the reasons of the key serializer affect all of them."""
        key_reason = self._worst_reason(reasons(header.key_serializer, self._writer_major, self._line))
        key_reasons = () if key_reason is None else (key_reason._replace(why=f"its key: {key_reason.why}"),)
        state_names = set(header.names)
        for state in self._judged_by_header(header.states, key_reasons, states_fail_alone=framing is not Framing.HEAP):
            reason_by_name = keyed_state_reason(state.name, state_names, self._writer_major, self._line)
            yield JudgedState(state.name, self._worst_reason(filter(None, (reason_by_name, state.reason))))

    def _judged_element_states(self, operator: Operator, header: OperatorStateHeader) -> Iterator[JudgedState]:
        for state in self._judged_by_header(header.states, (), states_fail_alone=True):
            is_source = state.name == READER_STATE
            reason_by_name = (
                self._reason_of_source(operator)
                if is_source
                else operator_state_reason(state.name, self._writer_major, self._line)
            )
            yield JudgedState(state.name, self._worst_reason(filter(None, (reason_by_name, state.reason))))

    def _judged_by_header(
        self, states: Sequence[StateMetaInfo], shared_reasons: Sequence[Reason], *, states_fail_alone: bool
    ) -> Iterator[JudgedState]:
        """Yield the prospects of the states that a header describes; `shared_reasons` affect all of them.

        `states_fail_alone` tells whether a misread state leaves the other states readable. In the native format of the
        hashmap backend it does not, because only the serializer tells where a value ends.
        """
        reasons_by_state = {
            state.name: [
                r for _, snapshot in state.serializers for r in reasons(snapshot, self._writer_major, self._line)
            ]
            for state in states
        }
        for state in states:
            reasons_of_others = [
                shared_reason
                for name, state_reasons in reasons_by_state.items()
                if name != state.name
                for shared_reason in _reasons_for_other_states(name, state_reasons, states_fail_alone=states_fail_alone)
            ]
            yield JudgedState(
                state.name, self._worst_reason((*reasons_by_state[state.name], *shared_reasons, *reasons_of_others))
            )

    def _reason_of_source(self, operator: Operator) -> Reason | None:
        """Return why `line` might not restore a source's splits and enumerator; None if it surely does.

        Returns None only for a readable `KafkaSource` that Flink 1 wrote, if `line` is a Flink 2. The Kafka connectors
        for Flink 2 read all that those for Flink 1 wrote (`KafkaPartitionSplitSerializer`,
        `KafkaSourceEnumStateSerializer`).
        """
        offsets = self._offsets_by_id.get(operator.operator_id)
        is_read = offsets is not None and offsets.unread_reason is None and offsets.unread_enumerator_reason is None
        is_source = offsets is not None and offsets.kind is KafkaKind.SOURCE
        return None if is_read and is_source and self._writer_major < self._line.major else source_reason(self._line)

    def _reason_of_unread_header(self, header: bytes, read: Callable[[bytes, str], object]) -> Reason:
        """Return why a release might not restore state whose header is missing or names an unknown class."""
        if header:
            try:
                read(header, "")
            except UnknownSerializerError as error:
                return missing_class_reason(error.class_name, self._line)
        return untyped_state_reason("gone", self._line)

    def _worst_reason(self, causes: Iterable[Reason]) -> Reason | None:
        """Return the worst reason, the first one if several are equally bad; None without reasons."""
        return max(causes, key=lambda reason: _OUTCOMES_BEST_FIRST.index(reason.restores), default=None)


def _kinds_without_header(operator: Operator) -> Iterator[str]:
    """Yield the kinds of the operator's state for which no header tells the types."""
    if operator.changelogs or operator.other_keyed:
        yield "changelog"
    if operator.raw_keyed_without_timers:
        yield "raw keyed state"
    if operator.raw_element_streams:
        yield "raw operator state"
    if operator.has_channel_state:
        yield "records in flight"


def _reasons_for_other_states(name: str, causes: Sequence[Reason], *, states_fail_alone: bool) -> Iterator[Reason]:
    """Yield reasons for all other states in a header, as consequences of `causes`: the reasons of the state `name`."""
    for reason in causes:
        if reason.fails_whole_header:
            yield reason._replace(why=f"its header also describes {name}, which cannot be read")
        elif not states_fail_alone:
            why = f"its file also holds {name}, of which this Flink may read too many or too few bytes"
            yield reason._replace(restores=Restores.UNKNOWN, why=why)
