"""Handles of new streams for the result's `_metadata`."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import NamedTuple, assert_never

from rescale.flink.key_groups import KeyGroupRange
from rescale.flink.metadata.handles import (
    FileStream,
    HandleTag,
    IncrementalHandle,
    InlineStream,
    KeyGroupsHandle,
    OperatorHandle,
    OperatorStateOffsets,
    RelativeFileStream,
    RocksdbFile,
    Stream,
)
from rescale.flink.metadata.writer import write_keyed_handle, write_operator_handle
from rescale.flink.slot import Slot
from rescale.plan.new_streams import (
    META_STREAM,
    CheckedElements,
    CompactedDirectory,
    CopiedElements,
    CopiedFile,
    CopiedKeyGroups,
    NewDatabase,
    NewStream,
    RekeyedDirectory,
    RekeyedHeapGroups,
    RekeyedKeyGroups,
    RekeyedTimers,
    TranslatedKeyGroups,
)
from rescale.plan.operator_plan import OperatorPlan
from rescale.plan.pieces import extent_of
from rescale.plan.plan import Plan
from rescale.runstate.written_handles import WrittenHandle
from rescale.storage.locations import is_s3

_UUID_NAMESPACE = uuid.UUID("f7d7a0f4-5a86-5a6f-9c1e-0d1f0c3c8b52")


class WrittenStream(NamedTuple):
    """A new stream as it was written: its size, the lengths of its key groups, and its content if it is inline."""

    stream: NewStream
    size: int
    key_group_lengths: tuple[int, ...]
    data: bytes | None


def written_handle(plan: Plan, operator: OperatorPlan, written_stream: WrittenStream) -> WrittenHandle:
    """Return the handle of a stream outside of RocksDB directories; the files of a directory share one handle."""
    stream, location = written_stream.stream, _stream_of(plan, operator, written_stream)
    match stream:
        case CopiedKeyGroups() | TranslatedKeyGroups() | RekeyedKeyGroups() | RekeyedTimers() | RekeyedHeapGroups():
            handle = write_keyed_handle(
                _keyed_handle(plan, operator, stream, written_stream.key_group_lengths, location)
            )
        case CopiedElements() | CheckedElements():
            handle = write_operator_handle(_operator_handle(stream, location))
        case CopiedFile() | RekeyedDirectory() | CompactedDirectory():
            raise ValueError("a RocksDB directory has one handle for all its files")
        case _:
            assert_never(stream)
    return WrittenHandle(operator.operator_id, stream.slot, stream.subtask, handle)


class DirectoryFile(NamedTuple):
    """A file of a RocksDB directory as it was written; `data` is its content if inline.

    `name_or_uri` is its name in the target, or the URI of a file elsewhere to which the result refers. `refusal` is the
    store's reason for refusing to copy the file; "" if it did not refuse.
    """

    local_name: str
    name_or_uri: str
    size: int
    data: bytes | None
    refusal: str = ""

    @property
    def stream(self) -> Stream:
        if self.data is not None:
            return InlineStream(self.name_or_uri, self.data)
        if "/" in self.name_or_uri:
            return FileStream(_with_scheme(self.name_or_uri), self.size)
        return RelativeFileStream(self.name_or_uri, self.size)


def written_database(
    plan: Plan, operator: OperatorPlan, database: NewDatabase, files: Mapping[str, WrittenStream]
) -> WrittenHandle:
    """Return the handle of a RocksDB directory, which also refers to files of the source (`database.referred`).

    `files` has the files that were written, by their names in the directory.
    """
    stream_by_name = {
        local_name: _stream_of(plan, operator, written_stream) for local_name, written_stream in files.items()
    }
    for local_name, piece in database.referred:
        stream_by_name[local_name] = FileStream(_with_scheme(plan.contents.uri(extent_of(piece))), piece.length)
    return _database_handle(plan, operator, database.subtask, database.key_group_range, stream_by_name)


def directory_handle(
    plan: Plan, operator: OperatorPlan, stream: RekeyedDirectory | CompactedDirectory, files: Iterable[DirectoryFile]
) -> WrittenHandle:
    """Return the handle of a RocksDB directory with the files that were written."""
    stream_by_name = {file.local_name: file.stream for file in files}
    return _database_handle(plan, operator, stream.subtask, stream.key_group_range, stream_by_name)


def _database_handle(
    plan: Plan, operator: OperatorPlan, subtask: int, key_groups: KeyGroupRange, stream_by_name: Mapping[str, Stream]
) -> WrittenHandle:
    """Return the handle of a directory.

    All files are private to the handle, so no later checkpoint refers to them.
    """
    handle = IncrementalHandle(
        tag=HandleTag.INCREMENTAL_V2,
        checkpoint_id=plan.checkpoint_id,
        backend_id=_planned_uuid(plan, operator, Slot.KEYED, subtask, "backend"),
        first_key_group=key_groups.first,
        key_group_count=len(key_groups),
        checkpointed_size=0,
        meta=stream_by_name[META_STREAM],
        shared=(),
        private=tuple(RocksdbFile(name, location) for name, location in stream_by_name.items() if name != META_STREAM),
        handle_id=_planned_uuid(plan, operator, Slot.KEYED, subtask),
    )
    return WrittenHandle(operator.operator_id, Slot.KEYED, subtask, write_keyed_handle(handle))


def _with_scheme(uri: str) -> str:
    """Add the scheme to a local path: without one, Flink would look in its default file system."""
    return uri if is_s3(uri) else f"file:{uri}"


def _stream_of(plan: Plan, operator: OperatorPlan, written_stream: WrittenStream) -> Stream:
    file_name = plan.file_name(operator, written_stream.stream)
    return (
        RelativeFileStream(file_name, written_stream.size)
        if written_stream.data is None
        else InlineStream(file_name, written_stream.data)
    )


def _planned_uuid(plan: Plan, operator: OperatorPlan, slot: Slot, subtask: int, *suffixes: str) -> str:
    """Return a UUID for a subtask's handle or backend, the same in every run of the plan; `suffixes` tell ids apart."""
    path = "/".join([plan.digest, operator.operator_id, slot, str(subtask), *suffixes])
    return str(uuid.uuid5(_UUID_NAMESPACE, path))


def _keyed_handle(
    plan: Plan,
    operator: OperatorPlan,
    stream: CopiedKeyGroups | TranslatedKeyGroups | RekeyedKeyGroups | RekeyedTimers | RekeyedHeapGroups,
    key_group_lengths: tuple[int, ...],
    location: Stream,
) -> KeyGroupsHandle:
    absent_offset = -1 if stream.slot is Slot.RAW_KEYED else 0
    offsets, position = [], stream.header_size
    for length in key_group_lengths:
        offsets.append(position if length >= 0 else absent_offset)
        position += max(length, 0)
    has_id = stream.handle_tag == HandleTag.KEY_GROUPS_V2
    handle_id = _planned_uuid(plan, operator, stream.slot, stream.subtask) if has_id else None
    return KeyGroupsHandle(stream.handle_tag, stream.first_key_group, tuple(offsets), location, handle_id)


def _operator_handle(stream: CopiedElements | CheckedElements, location: Stream) -> OperatorHandle:
    states, position = [], stream.header_size
    for state in stream.states:
        offsets = []
        for length in state.lengths:
            offsets.append(position)
            position += length
        states.append(OperatorStateOffsets(state.name, state.mode, tuple(offsets)))
    return OperatorHandle(tuple(states), location, None)
