"""The Kafka offsets in a snapshot: the position in each partition of a Kafka source, and the subtask that stored it.

Rescale needs no offsets to move state. So it reads neither the offsets of the connectors in `UNREAD_KINDS`, nor a state
larger than `STATE_LIMIT_BYTES`. A state that cannot be read is reported, and raises no error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from rescale.flink.encoding.snappy import decompressed
from rescale.flink.kafka.consumer import OFFSETS_STATE, read_consumer_element
from rescale.flink.kafka.dynamic_source import is_dynamic_enumerator, is_dynamic_split
from rescale.flink.kafka.hybrid_source import is_hybrid_enumerator, is_hybrid_split
from rescale.flink.kafka.position import Position, StartAt, owning_subtask
from rescale.flink.kafka.source import (
    READER_STATE,
    EnumeratorState,
    UnknownVersionError,
    VersionedBytes,
    read_enumerator,
    read_reader_element,
    read_split,
)
from rescale.flink.metadata.properties import stopped_the_job
from rescale.flink.redistribution import redistribute
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import ElementState, ElementStream, Operator, Snapshot
from rescale.snapshot.reading.element_layouts import layouts_of
from rescale.storage.side_by_side import side_by_side
from rescale.text.errors import SnapshotError

STATE_LIMIT_BYTES = 16 << 20
"""Largest size in bytes of a state that is read."""


class KafkaKind(StrEnum):
    """Connector class of a Kafka source."""

    SOURCE = "KafkaSource"
    CONSUMER = "FlinkKafkaConsumer"
    DYNAMIC = "DynamicKafkaSource"
    HYBRID = "HybridSource"


UNREAD_KINDS = {
    KafkaKind.DYNAMIC: "it is a DynamicKafkaSource, which stores them by cluster in a format of its own",
    KafkaKind.HYBRID: "it is a HybridSource, which wraps them in a format of its own",
}
"""Reasons why the offsets of some connectors are never read."""


@dataclass(frozen=True)
class KafkaOffsets:
    """Offsets of a Kafka source; the `positions` are in the order of the stored elements.

    `subtasks` has, for each position, the old subtask that stored it. `enumerator` is None for a `FlinkKafkaConsumer`,
    and if the enumerator's state is missing or could not be read. `unread_reason` says why the positions were not
    read, and `unread_enumerator_reason` why the enumerator's state was not.
    """

    operator: Operator
    kind: KafkaKind
    positions: tuple[Position, ...] = ()
    subtasks: tuple[int, ...] = ()
    enumerator: EnumeratorState | None = None
    unread_reason: str | None = None
    unread_enumerator_reason: str | None = None

    @property
    def label(self) -> str:
        return self.operator.label

    @property
    def unassigned_positions(self) -> tuple[Position, ...]:
        """Stored positions of partitions that the enumerator has not assigned; older connectors store none."""
        unassigned = self.enumerator.unassigned if self.enumerator is not None else ()
        return tuple(position for position in unassigned if position.next is not StartAt.UNSET)

    def reading_subtasks(self, parallelism: int) -> tuple[int, ...]:
        """Return for each position the subtask that reads from it when the job runs with `parallelism` subtasks.

        Every subtask of a `FlinkKafkaConsumer` gets the whole union state, and keeps the partitions that
        `KafkaTopicPartitionAssigner` gives it.
        """
        if self.kind is KafkaKind.CONSUMER:
            return tuple(owning_subtask(*position.partition, parallelism) for position in self.positions)
        subtask_by_position = [0] * len(self.positions)
        layouts = layouts_of(self.operator, self.operator.element_streams)
        for subtask, shares in enumerate(redistribute(layouts, parallelism) if self.positions else ()):
            for run in (run for share in shares if share.name == READER_STATE for run in share.runs):
                first_index = self.subtasks.index(run.source) + run.first
                subtask_by_position[first_index : first_index + run.count] = [subtask] * run.count
        return tuple(subtask_by_position)


def kafka_offsets(snapshot: Snapshot) -> tuple[KafkaOffsets, ...]:
    """Return the offsets of every operator that is a Kafka source; `unread_reason` says why they were not read."""
    sources = (
        _consumer_offsets(snapshot, o) if has_consumer(o) else _source_offsets(snapshot, o) for o in snapshot.operators
    )
    return tuple(offsets for offsets in sources if offsets is not None)


def labels_without_offsets(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the labels of operators with the state of a `FlinkKafkaConsumer`, but without any offset.

    Reads `_metadata` only. A stopping consumer stores no offsets, so a stop-with-savepoint before the first checkpoint
    leaves such state. A job that restores this state reads every partition from the earliest record.
    """
    return tuple(
        o.label for o in snapshot.operators if has_consumer(o) and not any(_streams_with_state(o, OFFSETS_STATE))
    )


def labels_with_stale_offsets(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the labels of consumers with offsets of an earlier checkpoint, because a savepoint stopped the job."""
    if not stopped_the_job(snapshot.metadata.properties):
        return ()
    return tuple(o.label for o in snapshot.operators if any(_streams_with_state(o, OFFSETS_STATE)))


def has_consumer(operator: Operator) -> bool:
    """Tell whether the operator has the state of a `FlinkKafkaConsumer`."""
    return any(state.name == OFFSETS_STATE for stream in operator.element_streams for state in stream.states)


def _consumer_offsets(snapshot: Snapshot, operator: Operator) -> KafkaOffsets:
    try:
        subtasks, positions = _positions(snapshot, operator, OFFSETS_STATE, read_consumer_element)
    except UnreadError as error:
        return KafkaOffsets(operator, KafkaKind.CONSUMER, unread_reason=str(error))
    return KafkaOffsets(operator, KafkaKind.CONSUMER, positions, subtasks)


def _source_offsets(snapshot: Snapshot, operator: Operator) -> KafkaOffsets | None:
    """Return the offsets of a Kafka source other than `FlinkKafkaConsumer`; None for other operators.

    Only the bytes of the enumerator's state and of the first split tell whether it is such a source, and its kind.
    """
    enumerator, unread_enumerator_reason = None, None
    coordinator = operator.entry.coordinator.data if operator.entry.coordinator is not None else None
    if coordinator is not None:
        try:
            enumerator = read_enumerator(coordinator)
        except UnknownVersionError as error:
            unread_enumerator_reason = str(error)
        except SnapshotError:
            kind = _unread_kind(snapshot, operator, coordinator)
            return None if kind is None else KafkaOffsets(operator, kind, unread_reason=UNREAD_KINDS[kind])
    if (enumerator is None or not enumerator.partitions) and not _matches_first_split(snapshot, operator, _is_split):
        return None
    offsets = KafkaOffsets(
        operator, KafkaKind.SOURCE, enumerator=enumerator, unread_enumerator_reason=unread_enumerator_reason
    )
    try:
        subtasks, positions = _positions(snapshot, operator, READER_STATE, _read_split)
    except UnreadError as error:
        return replace(offsets, unread_reason=str(error))
    return replace(offsets, positions=positions, subtasks=subtasks)


def _unread_kind(snapshot: Snapshot, operator: Operator, coordinator: bytes) -> KafkaKind | None:
    """Return the kind of a Kafka source with another enumerator than `KafkaSource`; None if it is no Kafka source."""
    if is_dynamic_enumerator(coordinator) or _matches_first_split(snapshot, operator, is_dynamic_split):
        return KafkaKind.DYNAMIC
    if is_hybrid_enumerator(coordinator) or _matches_first_split(snapshot, operator, is_hybrid_split):
        return KafkaKind.HYBRID
    return None


def _read_split(element: bytes) -> Position:
    return read_split(read_reader_element(element))


def _matches_first_split(snapshot: Snapshot, operator: Operator, matches: Callable[[VersionedBytes], bool]) -> bool:
    """Return whether `matches` accepts the first split in the readers' state."""
    for stream, state in _streams_with_state(operator, READER_STATE):
        try:
            return matches(read_reader_element(element_contents(snapshot, stream, state.elements[:1])[0]))
        except (SnapshotError, UnreadError):
            return False
    return False


def _is_split(split: VersionedBytes) -> bool:
    try:
        return bool(read_split(split))
    except (SnapshotError, UnknownVersionError):
        return False


class UnreadError(Exception):
    """Error with the reason why a state was not read."""


def _positions(
    snapshot: Snapshot, operator: Operator, name: str, read: Callable[[bytes], Position]
) -> tuple[tuple[int, ...], tuple[Position, ...]]:
    """Return the old subtask and the position of each element of a state. Raises `UnreadError` if it cannot be read."""
    states = list(_streams_with_state(operator, name))
    size = sum(extent.length for _, state in states for extent in state.elements)
    if size > STATE_LIMIT_BYTES:
        raise UnreadError(f"{name} has {size} bytes, above the limit of {STATE_LIMIT_BYTES} bytes")
    subtasks = tuple(stream.subtask for stream, state in states for _ in state.elements)
    try:
        elements_by_state = side_by_side(lambda pair: element_contents(snapshot, pair[0], pair[1].elements), states)
        return subtasks, tuple(read(element) for elements in elements_by_state for element in elements)
    except UnknownVersionError as error:
        raise UnreadError(str(error)) from None
    except SnapshotError as error:
        raise UnreadError(f"an element of {name} cannot be read: {error.what}") from None


def _streams_with_state(operator: Operator, name: str) -> Iterator[tuple[ElementStream, ElementState]]:
    for stream in operator.element_streams:
        for state in stream.states:
            if state.name == name and state.elements:
                yield stream, state


def element_contents(snapshot: Snapshot, stream: ElementStream, elements: Sequence[Extent]) -> list[bytes]:
    """Return the decompressed bytes of elements.

    Raises `UnreadError` if the file of the elements is missing or the operator is given up, and `SnapshotError` if the
    elements are damaged.
    """
    if elements[0].file >= len(snapshot.files):
        raise UnreadError("the operator is given up")
    uri = snapshot.contents.uri(elements[0])
    if uri in snapshot.missing_files:
        raise UnreadError(f"{uri} is gone")
    stored_contents = snapshot.contents.read_each(elements)
    if not stream.compressed:
        return stored_contents
    return [b"".join(decompressed([element], has_identifier=False)) for element in stored_contents]
