"""Apply changes of Kafka offsets to a snapshot.

The bytes of changed splits and union elements go to `Snapshot.written_bytes`. If a `FlinkKafkaConsumer` becomes a
`KafkaSource`, all elements change. The enumerator's state is part of the operator's entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rescale.flink.encoding.snappy import plain_chunk
from rescale.flink.kafka.consumer import OFFSETS_STATE, read_consumer_element
from rescale.flink.kafka.edited_consumer import edited_consumer_element
from rescale.flink.kafka.edited_source import (
    Edit,
    edited_coordinator,
    edited_reader_element,
    reader_state_header,
    write_assigned_partitions,
    write_coordinator,
    write_reader_element,
)
from rescale.flink.kafka.position import Position
from rescale.flink.kafka.source import READER_STATE, UnknownVersionError
from rescale.flink.metadata.handles import DistributionMode, InlineStream
from rescale.flink.operator_state import read_operator_state_header
from rescale.snapshot.kafka.changes import KafkaChange
from rescale.snapshot.kafka.migrated import splits_of
from rescale.snapshot.kafka.offsets import UnreadError, element_contents, has_consumer
from rescale.snapshot.locate import WRITTEN_FILE_NUMBER, Extent
from rescale.snapshot.model import ElementState, ElementStream, Operator, Snapshot
from rescale.text.advice import Advice, mention
from rescale.text.errors import SnapshotError

_EditElement = Callable[[bytes, Edit], bytes | None]


def with_kafka_changes(snapshot: Snapshot, changes: Sequence[KafkaChange]) -> Snapshot:
    """Return the snapshot after the changes. Raises `SnapshotError` if offsets of a changed operator cannot be read."""
    if not changes:
        return snapshot
    try:
        return _changed_snapshot(snapshot, changes)
    except (UnreadError, UnknownVersionError) as error:
        raise SnapshotError(
            f"the request changes Kafka offsets that cannot be read: {error}",
            advice=Advice("leave the offsets as they are, or leave the operator out (", mention("drop", "UID"), ")"),
        ) from None


def _changed_snapshot(snapshot: Snapshot, changes: Sequence[KafkaChange]) -> Snapshot:
    change_by_id = {change.operator_id: change for change in changes}
    writer = _Writer(snapshot)
    operators = tuple(
        writer.changed_operator(operator, change_by_id[operator.operator_id])
        if operator.operator_id in change_by_id
        else operator
        for operator in snapshot.operators
    )
    metadata = replace(snapshot.metadata, operators=tuple(operator.entry for operator in operators))
    return replace(snapshot, metadata=metadata, operators=operators, written_bytes=bytes(writer.written_bytes))


class _Writer:
    """Writer that appends the bytes of changed elements to `written_bytes`."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.written_bytes = bytearray(snapshot.written_bytes)

    def changed_operator(self, operator: Operator, change: KafkaChange) -> Operator:
        if change.becomes_source:
            return self._operator_with_source(operator, change)
        state_name, edit_element = (
            (OFFSETS_STATE, edited_consumer_element)
            if has_consumer(operator)
            else (READER_STATE, edited_reader_element)
        )
        streams = tuple(
            self._changed_stream(stream, state_name, edit_element, change.new_position)
            for stream in operator.element_streams
        )
        entry = operator.entry
        if entry.coordinator is not None:
            data = edited_coordinator(entry.coordinator.data, change.new_position)
            entry = replace(entry, coordinator=replace(entry.coordinator, data=data))
        return replace(operator, entry=entry, element_streams=streams)

    def _operator_with_source(self, operator: Operator, change: KafkaChange) -> Operator:
        stored_positions = (
            (stream.subtask, position)
            for stream in operator.element_streams
            for state in stream.states
            if state.name == OFFSETS_STATE and state.elements
            for element in element_contents(self._snapshot, stream, state.elements)
            if (position := change.new_position(read_consumer_element(element))) is not None
        )
        splits_by_subtask = splits_of(stored_positions)
        streams = tuple(
            self._reader_stream(stream, splits_by_subtask.get(stream.subtask, []))
            for stream in operator.element_streams
        )
        assigned_partitions = sorted(
            position.partition for positions in splits_by_subtask.values() for position in positions
        )
        coordinator = InlineStream(
            operator.operator_id, write_coordinator(write_assigned_partitions(assigned_partitions))
        )
        return replace(operator, entry=replace(operator.entry, coordinator=coordinator), element_streams=streams)

    def _reader_stream(self, stream: ElementStream, splits: Sequence[Position]) -> ElementStream:
        """Return reader state with these splits, which replaces the consumer's state `stream` of a subtask."""
        header, start = reader_state_header(stream.header), len(self.written_bytes)
        self.written_bytes += header
        extents = tuple(self._write(stream, write_reader_element(position)) for position in splits)
        extent = Extent(WRITTEN_FILE_NUMBER, start, len(self.written_bytes) - start)
        state = ElementState(READER_STATE, DistributionMode.SPLIT_DISTRIBUTE, extents)
        return ElementStream(stream.subtask, extent, (state,), header, read_operator_state_header(header, ""))

    def _changed_stream(
        self, stream: ElementStream, state_name: str, edit_element: _EditElement, edit: Edit
    ) -> ElementStream:
        states = (
            self._changed_state(stream, state, edit_element, edit) if state.name == state_name else state
            for state in stream.states
        )
        return replace(stream, states=tuple(states))

    def _changed_state(
        self, stream: ElementStream, state: ElementState, edit_element: _EditElement, edit: Edit
    ) -> ElementState:
        extents: list[Extent] = []
        old_elements = element_contents(self._snapshot, stream, state.elements) if state.elements else []
        for extent, old_element in zip(state.elements, old_elements, strict=True):
            new_element = edit_element(old_element, edit)
            if new_element is not None:
                extents.append(extent if new_element == old_element else self._write(stream, new_element))
        return replace(state, elements=tuple(extents))

    def _write(self, stream: ElementStream, element: bytes) -> Extent:
        stored_element = plain_chunk(element) if stream.compressed else element
        self.written_bytes += stored_element
        return Extent(WRITTEN_FILE_NUMBER, len(self.written_bytes) - len(stored_element), len(stored_element))
