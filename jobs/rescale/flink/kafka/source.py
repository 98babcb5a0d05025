"""State of a `KafkaSource`: the splits of its readers, and its enumerator's list of partitions.

A split is an element of the list state `SourceReaderState` (`KafkaPartitionSplitSerializer`). The enumerator's state
lies in the state of the operator's coordinator (`KafkaSourceEnumStateSerializer`). It lists the assigned partitions,
which the enumerator never assigns again, and the discovered partitions that are not assigned yet. The first releases
write version 0 of this state, later releases up to connector 3.0 write version 1, connectors 3.1 to 4.0 write version
2, and connector 5.0 writes version 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rescale.flink.encoding.binary import ByteReader
from rescale.flink.kafka.position import Position, StartAt, TopicPartition, checked_partition
from rescale.text.errors import SnapshotError

READER_STATE = "SourceReaderState"
"""Name of the list state of splits in all FLIP-27 sources (`SourceOperator.SPLITS_STATE_DESC`)."""

COORDINATOR_VERSION = 1
"""`SourceCoordinatorSerdeUtils.VERSION_1`."""
SPLIT_VERSION = 0
ENUMERATOR_VERSIONS = (0, 1, 2, 3)

ASSIGNED, UNASSIGNED = 0, 1
"""Codes of `AssignmentStatus`."""

NO_OFFSET = -(1 << 63)
START_BY_MARKER = {
    -1: StartAt.LATEST,
    -2: StartAt.EARLIEST,
    -3: StartAt.COMMITTED,
    NO_OFFSET: StartAt.UNSET,
}
"""Special offsets of `KafkaPartitionSplit`. As a stopping offset, `NO_OFFSET` means that the split has no end."""


class UnknownVersionError(Exception):
    """A serializer has an unknown version."""

    def __init__(self, serializer: str, version: int) -> None:
        super().__init__(f"version {version} of {serializer}")


class VersionedBytes(NamedTuple):
    """Version of a serializer, and the bytes that it wrote (`SimpleVersionedSerialization`)."""

    version: int
    data: bytes


@dataclass(frozen=True)
class EnumeratorState:
    """`KafkaSourceEnumState`: partitions that have a reader, and positions of partitions that wait for a reader."""

    assigned: tuple[TopicPartition, ...]
    unassigned: tuple[Position, ...]

    @property
    def partitions(self) -> set[TopicPartition]:
        """All partitions that the enumerator lists."""
        return {*self.assigned, *(position.partition for position in self.unassigned)}


def read_reader_element(data: bytes) -> VersionedBytes:
    """Return the versioned split in an element of `SourceReaderState`. Raises `SnapshotError` for other data."""
    reader = ByteReader(data)
    at = reader.position
    if reader.i32() != reader.remaining:
        raise reader.error(f"not an element of {READER_STATE}", at=at, expected=f"length {reader.remaining}")
    return _read_versioned(reader)


def read_split(split: VersionedBytes) -> Position:
    """Return the position in a split of a Kafka partition.

    Raises `SnapshotError` for damaged bytes, and `UnknownVersionError` for a split of an unknown version.
    """
    if split.version != SPLIT_VERSION:
        raise UnknownVersionError("KafkaPartitionSplitSerializer", split.version)
    reader = ByteReader(split.data)
    position = _read_position(reader)
    _check_end(reader)
    return position


def read_coordinator(coordinator: bytes) -> VersionedBytes:
    """Return the state of the enumerator in the state of a coordinator, for any FLIP-27 source.

    Raises `SnapshotError` for damaged bytes, and `UnknownVersionError` for an unknown version of the coordinator's
    state.
    """
    reader = ByteReader(coordinator)
    version = reader.i32()
    if version != COORDINATOR_VERSION:
        raise UnknownVersionError("SourceCoordinatorSerdeUtils", version)
    return _read_versioned(reader)


def read_enumerator(coordinator: bytes) -> EnumeratorState:
    """Return the state of the Kafka enumerator in the state of a coordinator.

    Raises `SnapshotError` for the state of another enumerator, and `UnknownVersionError` for an unknown version of the
    coordinator's or of the enumerator's state.
    """
    return decode_enumerator(read_coordinator(coordinator))


def decode_enumerator(state: VersionedBytes) -> EnumeratorState:
    """Return the state that a `KafkaSourceEnumStateSerializer` wrote. Raises the errors of `read_enumerator`."""
    if state.version not in ENUMERATOR_VERSIONS:
        raise UnknownVersionError("KafkaSourceEnumStateSerializer", state.version)
    reader = ByteReader(state.data)
    read_state = (_read_version_0, _read_version_1, _read_version_2, _read_version_3)[state.version]
    enumerator = read_state(reader)
    _check_end(reader)
    return enumerator


def _read_version_0(reader: ByteReader) -> EnumeratorState:
    """Read an enumerator's state of version 0 (`SerdeUtils.deserializeSplitAssignments`): the splits by subtask."""
    version, partitions = reader.i32(), []
    for _ in range(reader.count(8)):
        reader.i32()
        partitions += [read_split(VersionedBytes(version, reader.blob())).partition for _ in range(reader.count(4))]
    return EnumeratorState(tuple(partitions), ())


def _read_version_1(reader: ByteReader) -> EnumeratorState:
    return EnumeratorState(tuple(_read_partition(reader) for _ in range(reader.count(6))), ())


def _read_version_2(reader: ByteReader) -> EnumeratorState:
    entries = [
        (Position(_read_partition(reader), StartAt.UNSET), _read_is_assigned(reader)) for _ in range(reader.count(10))
    ]
    reader.boolean()
    return _enumerator_state(entries)


def _read_version_3(reader: ByteReader) -> EnumeratorState:
    split_count, version = reader.count(8), reader.i32()
    entries = [
        (read_split(VersionedBytes(version, reader.blob())), _read_is_assigned(reader)) for _ in range(split_count)
    ]
    reader.boolean()
    return _enumerator_state(entries)


def _enumerator_state(entries: list[tuple[Position, bool]]) -> EnumeratorState:
    return EnumeratorState(
        tuple(position.partition for position, is_assigned in entries if is_assigned),
        tuple(position for position, is_assigned in entries if not is_assigned),
    )


def _read_versioned(reader: ByteReader) -> VersionedBytes:
    versioned = VersionedBytes(reader.i32(), reader.blob())
    _check_end(reader)
    return versioned


def _read_position(reader: ByteReader) -> Position:
    partition, at, offset, stop = _read_partition(reader), reader.position, reader.i64(), reader.i64()
    return Position(
        partition,
        _offset_or_start(reader, at, offset),
        None if stop == NO_OFFSET else _offset_or_start(reader, at + 8, stop),
    )


def _read_partition(reader: ByteReader) -> TopicPartition:
    at = reader.position
    return checked_partition(reader, at, reader.utf(), reader.i32())


def _offset_or_start(reader: ByteReader, at: int, offset: int) -> int | StartAt:
    if offset < 0 and offset not in START_BY_MARKER:
        raise reader.error("not an offset of a Kafka partition", at=at, found=offset)
    return START_BY_MARKER.get(offset, offset)


def _read_is_assigned(reader: ByteReader) -> bool:
    at, status = reader.position, reader.i32()
    if status not in (ASSIGNED, UNASSIGNED):
        raise reader.error("not a status of a Kafka partition", at=at, expected="0 or 1", found=status)
    return status == ASSIGNED


def _check_end(reader: ByteReader) -> None:
    if reader.remaining:
        raise SnapshotError(
            "unexpected bytes at the end", offset=reader.position, expected="nothing", found=f"{reader.remaining} bytes"
        )
