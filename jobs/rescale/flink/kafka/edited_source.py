"""Edits the positions in the splits and in the enumerator's state of a `KafkaSource`, and writes new splits.

An edit keeps the serializer version and all other bytes, so the same connectors read the original and the result.
"""

from __future__ import annotations

from collections.abc import Callable

from rescale.flink.encoding.binary import ByteReader, ByteWriter
from rescale.flink.kafka.position import Position, StartAt, TopicPartition
from rescale.flink.kafka.source import (
    COORDINATOR_VERSION,
    NO_OFFSET,
    READER_STATE,
    SPLIT_VERSION,
    START_BY_MARKER,
    VersionedBytes,
    read_coordinator,
    read_enumerator,
    read_reader_element,
    read_split,
)
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.operator_state import OperatorStateHeader, has_compressed_elements, write_operator_state_header
from rescale.flink.serializers.reading import PROXY_VERSION
from rescale.flink.serializers.rows.core import BYTE_ARRAY
from rescale.flink.state_meta_info import SerializerKey, StateKind, StateMetaInfo, read_state_meta_info

Edit = Callable[[Position], Position | None]
"""Function from an old position to the new one; None drops the partition.

The old position of a partition without a stored offset is `StartAt.UNSET`.
"""

_MARKER_BY_START = {start: number for number, start in START_BY_MARKER.items()}


def edited_reader_element(element: bytes, edit: Edit) -> bytes | None:
    """Return an element of `SourceReaderState` after the edit; None if the edit drops its split.

    Raises the errors of `read_reader_element` and `read_split`.
    """
    position = read_split(read_reader_element(element))
    new_position = edit(position)
    return element if new_position == position else None if new_position is None else write_reader_element(new_position)


def write_reader_element(position: Position) -> bytes:
    """Return an element of `SourceReaderState` with one split (`SimpleVersionedListState` over an array of bytes)."""
    return _with_length(_versioned_bytes(VersionedBytes(SPLIT_VERSION, _split_bytes(position))))


def edited_coordinator(coordinator: bytes, edit: Edit) -> bytes:
    """Return the state of the coordinator after the edit of all partitions that its enumerator lists.

    Raises the errors of `read_enumerator`.
    """
    read_enumerator(coordinator)  # raises an error for damaged bytes that the functions below do not check
    state = read_coordinator(coordinator)
    reader = ByteReader(state.data)
    edited_state = (_edited_version_0, _edited_version_1, _edited_version_2, _edited_version_3)[state.version](
        reader, edit
    )
    return write_coordinator(VersionedBytes(state.version, edited_state + reader.raw(reader.remaining)))


def write_coordinator(state: VersionedBytes) -> bytes:
    """Return the state of a coordinator whose enumerator has this `state` (`SourceCoordinator.toBytes`)."""
    return ByteWriter().i32(COORDINATOR_VERSION).raw(_versioned_bytes(state)).bytes()


def write_assigned_partitions(partitions: list[TopicPartition]) -> VersionedBytes:
    """Return a `KafkaSourceEnumState` in which all `partitions` are assigned and the first discovery is done.

    The state has version 1, which lists assigned partitions only. All connectors since Flink 1.14 read this version.
    """
    return VersionedBytes(1, _with_count(list(map(_partition_bytes, partitions))))


def _edited_version_0(reader: ByteReader, edit: Edit) -> bytes:
    """Edit an enumerator's state of version 0, which has a list of splits for each subtask."""
    version, subtask_count = reader.i32(), reader.i32()
    out = ByteWriter().i32(version).i32(subtask_count)
    for _ in range(subtask_count):
        out.i32(reader.i32())
        splits = [_edited_split(reader.blob(), edit) for _ in range(reader.i32())]
        out.raw(_with_count([_with_length(split) for split in splits if split is not None]))
    return out.bytes()


def _edited_version_1(reader: ByteReader, edit: Edit) -> bytes:
    kept_partitions = [_edited_partition(reader, edit) for _ in range(reader.i32())]
    return _with_count([partition for partition in kept_partitions if partition is not None])


def _edited_version_2(reader: ByteReader, edit: Edit) -> bytes:
    kept_entries = [(_edited_partition(reader, edit), reader.raw(4)) for _ in range(reader.i32())]
    return _with_count([partition + status for partition, status in kept_entries if partition is not None])


def _edited_version_3(reader: ByteReader, edit: Edit) -> bytes:
    split_count, version = reader.i32(), reader.raw(4)
    kept_entries = [(_edited_split(reader.blob(), edit), reader.raw(4)) for _ in range(split_count)]
    entries = [_with_length(split) + status for split, status in kept_entries if split is not None]
    count_and_entries = _with_count(entries)
    return count_and_entries[:4] + version + count_and_entries[4:]


def _with_count(entries: list[bytes]) -> bytes:
    return ByteWriter().i32(len(entries)).raw(b"".join(entries)).bytes()


def _edited_partition(reader: ByteReader, edit: Edit) -> bytes | None:
    """Edit a partition that is stored without an offset. Return None if the edit drops it."""
    new_position = edit(Position(TopicPartition(reader.utf(), reader.i32()), StartAt.UNSET))
    return None if new_position is None else _partition_bytes(new_position.partition)


def _edited_split(split: bytes, edit: Edit) -> bytes | None:
    new_position = edit(read_split(VersionedBytes(SPLIT_VERSION, split)))
    return None if new_position is None else _split_bytes(new_position)


def _split_bytes(position: Position) -> bytes:
    """Return a split as `KafkaPartitionSplitSerializer` writes it."""
    stop = NO_OFFSET if position.stop is None else _stored_offset(position.stop)
    return ByteWriter().raw(_partition_bytes(position.partition)).i64(_stored_offset(position.next)).i64(stop).bytes()


def _partition_bytes(partition: TopicPartition) -> bytes:
    return ByteWriter().utf(partition.topic).i32(partition.partition).bytes()


def _stored_offset(offset: int | StartAt) -> int:
    return _MARKER_BY_START[offset] if isinstance(offset, StartAt) else offset


def _versioned_bytes(versioned: VersionedBytes) -> bytes:
    return ByteWriter().i32(versioned.version).blob(versioned.data).bytes()


def _with_length(data: bytes) -> bytes:
    return ByteWriter().blob(data).bytes()


def reader_state_header(existing_file: bytes) -> bytes:
    """Return the header of an operator state file that holds only splits.

    Its version and its compression are those of the header at the beginning of `existing_file`.
    """
    version, compressed = ByteReader(existing_file).i32(), has_compressed_elements(existing_file)
    return write_operator_state_header(OperatorStateHeader(version, compressed, (_reader_state_info(),), ()))


def _reader_state_info() -> StateMetaInfo:
    """Return `SourceOperator.SPLITS_STATE_DESC` as `OperatorStateBackend` describes it."""
    out = ByteWriter().utf(READER_STATE).i32(StateKind.OPERATOR)
    out.i32(1).utf("OPERATOR_STATE_DISTRIBUTION_MODE").utf(DistributionMode.SPLIT_DISTRIBUTE.name)
    out.i32(1).utf(SerializerKey.VALUE)
    out.i32(PROXY_VERSION).utf(BYTE_ARRAY.snapshot).i32(max(BYTE_ARRAY.versions))
    return read_state_meta_info(ByteReader(out.bytes()))
