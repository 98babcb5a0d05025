"""The Kafka offsets in a snapshot: what each Kafka source holds, and who holds it before and after a rescale.

Of all states only Kafka's are read, and of those only what is not too large: nothing that moves depends on them. What
cannot be read is said, and is no error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from rescale.errors import SnapshotError
from rescale.flink.encoding.snappy import decompressed
from rescale.flink.kafka.consumer import OFFSETS_STATE, read_consumer_element
from rescale.flink.kafka.dynamic_source import is_dynamic_enumerator, is_dynamic_split
from rescale.flink.kafka.position import Position, StartAt, owner
from rescale.flink.kafka.source import (
    READER_STATE,
    Enumerator,
    UnknownVersionError,
    Versioned,
    read_enumerator,
    read_reader_element,
    read_split,
)
from rescale.flink.metadata.properties import stopped_the_job
from rescale.flink.operator_state import has_compressed_elements
from rescale.flink.redistribution import redistribute
from rescale.snapshot.element_layouts import layouts_of
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import ElementState, ElementStream, Operator, Snapshot
from rescale.storage.side_by_side import side_by_side

STATE_LIMIT = 16 << 20
"""Largest state, in bytes, that is read."""

_DYNAMIC = "it is a DynamicKafkaSource, which keeps them by cluster in a form of its own"


class KafkaKind(StrEnum):
    """The connector's class. What a `DynamicKafkaSource` holds is never read."""

    SOURCE = "KafkaSource"
    CONSUMER = "FlinkKafkaConsumer"
    DYNAMIC = "DynamicKafkaSource"


@dataclass(frozen=True)
class KafkaOffsets:
    """What one Kafka source holds: `held` are its positions in the order of the stored elements.

    `stored_by` says which old subtask stored each. `enumerator` is None for a `FlinkKafkaConsumer`, and where there was
    none that could be read. `unread` says why positions, and `unread_enumerator` why the enumerator, were not read.
    """

    operator: Operator
    kind: KafkaKind
    held: tuple[Position, ...] = ()
    stored_by: tuple[int, ...] = ()
    enumerator: Enumerator | None = None
    unread: str | None = None
    unread_enumerator: str | None = None

    @property
    def label(self) -> str:
        return self.operator.label

    @property
    def waiting(self) -> tuple[Position, ...]:
        """What the enumerator has given to no reader, and has an offset for, which it does not have in all versions."""
        unassigned = self.enumerator.unassigned if self.enumerator is not None else ()
        return tuple(position for position in unassigned if position.next is not StartAt.UNSET)

    def holders(self, parallelism: int) -> tuple[int, ...]:
        """For each position the subtask that reads it once the job runs with `parallelism` subtasks.

        Every subtask of a `FlinkKafkaConsumer` gets the whole union and keeps what is its own by name.
        """
        if self.kind is KafkaKind.CONSUMER:
            return tuple(owner(*position.partition, parallelism) for position in self.held)
        holders = [0] * len(self.held)
        layouts = layouts_of(self.operator, self.operator.operator)
        for subtask, shares in enumerate(redistribute(layouts, parallelism) if self.held else ()):
            for run in (run for share in shares if share.name == READER_STATE for run in share.runs):
                first = self.stored_by.index(run.source) + run.first
                holders[first : first + run.count] = [subtask] * run.count
        return tuple(holders)


def kafka_offsets(snapshot: Snapshot) -> tuple[KafkaOffsets, ...]:
    """The offsets of every operator that is a Kafka source."""
    found = (_of_consumer(snapshot, o) if has_consumer(o) else _of_source(snapshot, o) for o in snapshot.operators)
    return tuple(offsets for offsets in found if offsets is not None)


def missing_offsets(snapshot: Snapshot) -> tuple[str, ...]:
    """Labels of the operators with a `FlinkKafkaConsumer`'s state and no offset in it. Reads nothing.

    Once told to stop, such a consumer stores nothing more: stop-with-savepoint before any checkpoint leaves this, and
    the job that is restored from it reads every partition from its earliest record.
    """
    return tuple(o.label for o in snapshot.operators if has_consumer(o) and not any(_states(o, OFFSETS_STATE)))


def stale_offsets(snapshot: Snapshot) -> tuple[str, ...]:
    """As `missing_offsets`, where a checkpoint went before: labels of those with its offsets in a later savepoint."""
    if not stopped_the_job(snapshot.metadata.properties):
        return ()
    return tuple(o.label for o in snapshot.operators if any(_states(o, OFFSETS_STATE)))


def has_consumer(operator: Operator) -> bool:
    return any(state.name == OFFSETS_STATE for stream in operator.operator for state in stream.states)


def _of_consumer(snapshot: Snapshot, operator: Operator) -> KafkaOffsets:
    try:
        stored_by, held = _positions(snapshot, operator, OFFSETS_STATE, read_consumer_element)
    except UnreadError as error:
        return KafkaOffsets(operator, KafkaKind.CONSUMER, unread=str(error))
    return KafkaOffsets(operator, KafkaKind.CONSUMER, held, stored_by)


def _of_source(snapshot: Snapshot, operator: Operator) -> KafkaOffsets | None:
    """None for a source of another kind: only its bytes tell, the enumerator's first, then the first split's."""
    enumerator, unread_enumerator = None, None
    coordinator = operator.entry.coordinator.data if operator.entry.coordinator is not None else None
    if coordinator is not None:
        try:
            enumerator = read_enumerator(coordinator)
        except UnknownVersionError as error:
            unread_enumerator = str(error)
        except SnapshotError:
            if is_dynamic_enumerator(coordinator) or _begins_with(snapshot, operator, is_dynamic_split):
                return KafkaOffsets(operator, KafkaKind.DYNAMIC, unread=_DYNAMIC)
            return None
    if (enumerator is None or not enumerator.known) and not _begins_with(snapshot, operator, _is_split):
        return None
    offsets = KafkaOffsets(operator, KafkaKind.SOURCE, enumerator=enumerator, unread_enumerator=unread_enumerator)
    try:
        stored_by, held = _positions(snapshot, operator, READER_STATE, _read_split)
    except UnreadError as error:
        return replace(offsets, unread=str(error))
    return replace(offsets, held=held, stored_by=stored_by)


def _read_split(element: bytes) -> Position:
    return read_split(read_reader_element(element))


def _begins_with(snapshot: Snapshot, operator: Operator, is_one: Callable[[Versioned], bool]) -> bool:
    """Whether the first split that the readers hold is such a one."""
    for stream, state in _states(operator, READER_STATE):
        try:
            return is_one(read_reader_element(contents_of(snapshot, stream, state.elements[:1])[0]))
        except (SnapshotError, UnreadError):
            return False
    return False


def _is_split(split: Versioned) -> bool:
    try:
        return bool(read_split(split))
    except (SnapshotError, UnknownVersionError):
        return False


class UnreadError(Exception):
    """Why a state was not read."""


def _positions(
    snapshot: Snapshot, operator: Operator, name: str, read: Callable[[bytes], Position]
) -> tuple[tuple[int, ...], tuple[Position, ...]]:
    """Of each element of a state, the old subtask and what `read` makes of it; `UnreadError`."""
    states = list(_states(operator, name))
    size = sum(extent.length for _, state in states for extent in state.elements)
    if size > STATE_LIMIT:
        raise UnreadError(f"{name} has {size} bytes, and no more than {STATE_LIMIT} are read")
    stored_by = tuple(stream.subtask for stream, state in states for _ in state.elements)
    try:
        contents = side_by_side(lambda one: contents_of(snapshot, one[0], one[1].elements), states)
        return stored_by, tuple(read(element) for elements in contents for element in elements)
    except UnknownVersionError as error:
        raise UnreadError(str(error)) from None
    except SnapshotError as error:
        raise UnreadError(f"an element of {name} cannot be read: {error.what}") from None


def _states(operator: Operator, name: str) -> Iterator[tuple[ElementStream, ElementState]]:
    """Where the operator's subtasks hold elements of the state."""
    for stream in operator.operator:
        for state in stream.states:
            if state.name == name and state.elements:
                yield stream, state


def contents_of(snapshot: Snapshot, stream: ElementStream, elements: Sequence[Extent]) -> list[bytes]:
    """The bytes of elements, without compression; `UnreadError` if they are gone, `SnapshotError` if damaged.

    `UnreadError` also where the operator is given up: its files are none of the snapshot's.
    """
    if elements[0].file >= len(snapshot.files):
        raise UnreadError("the operator is given up")
    uri = snapshot.contents.uri(elements[0])
    if uri in snapshot.missing:
        raise UnreadError(f"{uri} is gone")
    stored = snapshot.contents.read_each(elements)
    if not has_compressed_elements(stream.header):
        return stored
    return [b"".join(decompressed([element], identifier=False)) for element in stored]
