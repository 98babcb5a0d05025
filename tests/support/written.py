"""Canonical savepoints of one operator, written record by record, for keys and sizes that no fixture has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from rescale.flink.key_groups import key_group_range, subtask_of_key_group
from rescale.flink.metadata.checkpoint_metadata import Metadata, OperatorState, Subtask, SubtaskState
from rescale.flink.metadata.handles import HandleTag, KeyGroupsHandle, RelativeFileStream
from rescale.flink.metadata.properties import savepoint_properties
from rescale.flink.metadata.writer import write_metadata
from rescale.flink.operator_id import operator_id_of_uid
from support.canonical import Record, write_group

UID = "written"


def write_savepoint(
    directory: Path,
    header: bytes,
    groups: Mapping[int, Iterable[Record]],
    parallelism: int,
    max_parallelism: int,
    tag: int = HandleTag.SAVEPOINT_KEY_GROUPS,
) -> str:
    """Write a savepoint of key groups with their records, which the header describes; return its directory."""
    directory.mkdir(parents=True)
    subtasks = []
    for subtask in range(parallelism):
        own = key_group_range(max_parallelism, parallelism, subtask)
        content, offsets = bytearray(header), []
        for key_group in range(own.first, own.last + 1):
            data = write_group(key_group, list(groups.get(key_group, ())), max_parallelism)
            offsets.append(len(content) if data else 0)
            content += data
        (directory / f"keyed-{subtask}").write_bytes(content)
        stream = RelativeFileStream(f"keyed-{subtask}", len(content))
        handle = KeyGroupsHandle(tag, own.first, tuple(offsets), stream)
        subtasks.append(Subtask(subtask, False, SubtaskState(managed_keyed=handle)))
    assert all(subtask_of_key_group(max_parallelism, parallelism, group) < parallelism for group in groups)
    operator = OperatorState(operator_id_of_uid(UID), "", "", parallelism, max_parallelism, None, tuple(subtasks))
    metadata = Metadata(4, 1, (), (operator,), savepoint_properties(canonical=True))
    (directory / "_metadata").write_bytes(write_metadata(metadata))
    return str(directory)
