"""Savepoints of one operator, written record by record, for keys and sizes that no fixture has."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rescale.flink.key_groups import key_group_range
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
    written = {group: write_group(group, list(records), max_parallelism) for group, records in groups.items()}
    return _write(directory, [header] * parallelism, written, max_parallelism, tag)


def write_heap_savepoint(directory: Path, headers: Sequence[bytes], groups: Mapping[int, bytes], maximum: int) -> str:
    """Write a native savepoint with a subtask for each header and its key groups; return its directory."""
    return _write(directory, headers, groups, maximum, HandleTag.KEY_GROUPS_V2)


def _write(
    directory: Path, headers: Sequence[bytes], groups: Mapping[int, bytes], max_parallelism: int, tag: int
) -> str:
    directory.mkdir(parents=True)
    assert groups.keys() <= set(range(max_parallelism))
    subtasks = []
    for subtask, header in enumerate(headers):
        own = key_group_range(max_parallelism, len(headers), subtask)
        content, offsets = bytearray(header), []
        for key_group in range(own.first, own.last + 1):
            data = groups.get(key_group, b"")
            offsets.append(len(content) if data else 0)
            content += data
        (directory / f"keyed-{subtask}").write_bytes(content)
        stream = RelativeFileStream(f"keyed-{subtask}", len(content))
        handle_id = str(uuid.UUID(int=subtask)) if tag == HandleTag.KEY_GROUPS_V2 else None
        handle = KeyGroupsHandle(tag, own.first, tuple(offsets), stream, handle_id)
        subtasks.append(Subtask(subtask, False, SubtaskState(managed_keyed=handle)))
    operator = OperatorState(operator_id_of_uid(UID), "", "", len(headers), max_parallelism, None, tuple(subtasks))
    metadata = Metadata(4, 1, (), (operator,), savepoint_properties(is_canonical=tag != HandleTag.KEY_GROUPS_V2))
    (directory / "_metadata").write_bytes(write_metadata(metadata))
    return str(directory)
