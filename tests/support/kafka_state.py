"""State of Kafka connectors, written byte by byte, and savepoints that contain it."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

from rescale.flink.kafka.consumer import OFFSETS_STATE
from rescale.flink.kafka.source import READER_STATE
from rescale.flink.keys.java_strings import java_string_hash
from rescale.flink.metadata.checkpoint_metadata import Metadata, OperatorState, Subtask, SubtaskState
from rescale.flink.metadata.handles import (
    DistributionMode,
    InlineStream,
    OperatorHandle,
    OperatorStateOffsets,
    RelativeFileStream,
)
from rescale.flink.metadata.properties import savepoint_properties
from rescale.flink.metadata.writer import write_metadata
from rescale.flink.operator_id import operator_id_of_uid
from support.java_values import varint
from support.snapshot_bytes import i32, operator_header, operator_list, utf

NO_STOP = -(1 << 63)


def versioned(version: int, data: bytes) -> bytes:
    return i32(version, len(data)) + data


def split(topic: str, partition: int, offset: int, stop: int = NO_STOP) -> bytes:
    return utf(topic) + i32(partition) + struct.pack(">qq", offset, stop)


def reader_element(topic: str, partition: int, offset: int, stop: int = NO_STOP, version: int = 0) -> bytes:
    data = versioned(version, split(topic, partition, offset, stop))
    return i32(len(data)) + data


def enumerator(entries: Iterable[tuple[str, int, int]]) -> bytes:
    """Return coordinator state with an enumerator of version 2: topic, partition, status (0: assigned)."""
    listed = [utf(topic) + i32(partition, status) for topic, partition, status in entries]
    return i32(1) + versioned(2, i32(len(listed)) + b"".join(listed) + b"\1")


def dynamic_element(cluster: str, topic: str, partition: int, offset: int, version: int = 1) -> bytes:
    """Return a split of a `DynamicKafkaSource`."""
    data = versioned(version, utf(cluster) + i32(0) + split(topic, partition, offset))
    return i32(len(data)) + data


def hybrid_element(topic: str, partition: int, offset: int, version: int = 1) -> bytes:
    """Return a split of a `HybridSource` over a `KafkaSource`; since version 1, it has a flag for finished splits."""
    wrapped = i32(1) + utf(f"{topic}-{partition}") + versioned(0, split(topic, partition, offset))
    data = versioned(version, wrapped + (b"\0" if version else b""))
    return i32(len(data)) + data


def hybrid_enumerator(entries: Iterable[tuple[str, int, int]]) -> bytes:
    """Return the coordinator state of a `HybridSource`, with the state of the `KafkaSource`'s enumerator."""
    return i32(1) + versioned(0, i32(1) + enumerator(entries)[4:])


def dynamic_enumerator(cluster: str, topic: str, version: int = 1, streams: int = 1) -> bytes:
    """Return coordinator state with this number of `streams` of one cluster; partition 0 of `topic` is assigned.

    Since version 2, a cluster has a start position, as a serialized object, and a stop position, which is absent here.
    """
    bounds = b"\1" + i32(3) + b"any" + b"\0" if version > 1 else b""
    stream = utf("stream") + i32(1) + utf(cluster) + i32(1) + utf(topic) + utf("kafka:9092") + bounds
    kafka = i32(1) + utf(topic) + i32(0, 0) + b"\1"
    clusters = i32(1) + utf(cluster) + i32(len(kafka)) + kafka
    return i32(1) + versioned(version, i32(streams) + streams * stream + i32(2) + clusters)


def consumer_element(topic: str, partition: int, last: int, class_id: int = 0x57) -> bytes:
    """Return a `Tuple2<KafkaTopicPartition, Long>`; Kryo 2.24 writes the first field."""
    cached = (31 * java_string_hash(topic) + partition + (1 << 31)) % (1 << 32) - (1 << 31)
    fields = _zigzag(cached) + _zigzag(partition) + b"\1" + _string(topic)
    return bytes((class_id, 1)) + fields + struct.pack(">q", last)


def _zigzag(number: int) -> bytes:
    return varint((number << 1 ^ number >> 31) & 0xFFFFFFFF)


def _string(text: str) -> bytes:
    if 1 < len(text) < 64:
        return text[:-1].encode() + bytes((ord(text[-1]) | 0x80,))
    length = len(text) + 1
    head = bytes((0x80 | length,)) if length < 0x40 else bytes((0xC0 | length & 0x3F,)) + varint(length >> 6)
    return head + text.encode()


SPLIT, UNION = DistributionMode.SPLIT_DISTRIBUTE, DistributionMode.UNION


def source_savepoint(
    directory: Path, readers: Sequence[Sequence[bytes]], coordinator: bytes, *, compressed: bool = False
) -> str:
    """Write a savepoint of a `KafkaSource` with the uid "orders", whose subtasks hold these splits."""
    entry = operator_entry(directory, "orders", READER_STATE, SPLIT, readers, coordinator, compressed=compressed)
    return savepoint(directory, entry)


def consumer_savepoint(directory: Path, subtasks: Sequence[Sequence[bytes]], *, compressed: bool = False) -> str:
    """Write a savepoint of a `FlinkKafkaConsumer` with the uid "orders", whose subtasks hold these elements."""
    return savepoint(
        directory, operator_entry(directory, "orders", OFFSETS_STATE, UNION, subtasks, compressed=compressed)
    )


def savepoint(directory: Path, *entries: OperatorState, version: int = 4) -> str:
    """Write `_metadata` into the directory, which has the files of the entries, and return the directory."""
    metadata = Metadata(version, 7, (), entries, savepoint_properties(is_canonical=True) if version > 3 else b"")
    (directory / "_metadata").write_bytes(write_metadata(metadata))
    return str(directory)


def operator_entry(
    directory: Path,
    uid: str,
    state: str,
    mode: DistributionMode,
    subtasks: Sequence[Sequence[bytes]],
    coordinator: bytes | None = None,
    *,
    compressed: bool = False,
) -> OperatorState:
    """Return an operator with one list state, after writing a file for each subtask into `directory`."""
    directory.mkdir(exist_ok=True)
    header = operator_header((operator_list(state, mode=mode.name),), compressed=compressed)
    written = []
    for index, elements in enumerate(subtasks):
        offsets = tuple(len(header) + sum(map(len, elements[:i])) for i in range(len(elements)))
        data, name = header + b"".join(elements), f"{uid}-{index}"
        (directory / name).write_bytes(data)
        handle = OperatorHandle((OperatorStateOffsets(state, mode, offsets),), RelativeFileStream(name, len(data)))
        written.append(Subtask(index, finished=False, state=SubtaskState(managed_operator=handle)))
    operator_id = operator_id_of_uid(uid)
    stream = None if coordinator is None else InlineStream(operator_id, coordinator)
    return OperatorState(operator_id, "", "", len(subtasks), 128, stream, tuple(written))
