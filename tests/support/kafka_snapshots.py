"""Savepoints with one Kafka source each, written to a directory as Flink lays them out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rescale.flink.kafka.consumer import OFFSETS_STATE
from rescale.flink.kafka.source import READER_STATE
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
from support.snapshot_bytes import operator_header, operator_list

SPLIT, UNION = DistributionMode.SPLIT_DISTRIBUTE, DistributionMode.UNION


def source_savepoint(
    directory: Path, readers: Sequence[Sequence[bytes]], coordinator: bytes, *, compressed: bool = False
) -> str:
    """Of a `KafkaSource` with the uid "orders", whose subtasks hold these splits."""
    entry = operator_entry(directory, "orders", READER_STATE, SPLIT, readers, coordinator, compressed=compressed)
    return savepoint(directory, entry)


def consumer_savepoint(directory: Path, subtasks: Sequence[Sequence[bytes]], *, compressed: bool = False) -> str:
    """Of a `FlinkKafkaConsumer` with the uid "orders", whose subtasks hold these elements."""
    return savepoint(
        directory, operator_entry(directory, "orders", OFFSETS_STATE, UNION, subtasks, compressed=compressed)
    )


def savepoint(directory: Path, *entries: OperatorState, version: int = 4) -> str:
    """The directory; the files of the entries lie in it already."""
    metadata = Metadata(version, 7, (), entries, savepoint_properties(canonical=True) if version > 3 else b"")
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
    """An operator with one list state; a file for each subtask is put into the directory, which is made."""
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
