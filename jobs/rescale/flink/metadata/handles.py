"""State handles: references to the state of a subtask.

A *stream* is a file, a piece of a file, or (if small) the bytes themselves. A *keyed handle* says where key groups lie
in streams, an *operator handle* where the elements of list and broadcast states lie, and a *channel handle* where the
in-flight buffers of an unaligned checkpoint lie. `MetadataV2V3SerializerBase` defines their formats.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias


class HandleTag(IntEnum):
    """Type byte in front of a handle; the numbers are unique across all kinds of handles."""

    NULL = 0
    INLINE = 1
    FILE = 2
    KEY_GROUPS = 3
    OPERATOR = 4
    INCREMENTAL = 5
    RELATIVE_FILE = 6
    SAVEPOINT_KEY_GROUPS = 7
    CHANGELOG = 8
    IN_MEMORY_CHANGELOG = 9
    CHANGELOG_STREAM = 10
    INCREMENTAL_V2 = 11
    KEY_GROUPS_V2 = 12
    CHANGELOG_STREAM_V2 = 13
    CHANGELOG_V2 = 14
    SEGMENT = 15
    EMPTY_SEGMENT = 16
    FILE_MERGING_OPERATOR = 17


class DistributionMode(IntEnum):
    """Distribution of the elements of an operator state to subtasks: the ordinals of `OperatorStateHandle.Mode`."""

    SPLIT_DISTRIBUTE = 0
    UNION = 1
    BROADCAST = 2


@dataclass(frozen=True, slots=True)
class InlineStream:
    """`ByteStreamStateHandle` (tag 1): the state itself.

    Flink compares these handles by `name` alone, so different content needs different names. `position` is the offset
    of `data` in the bytes from which the handle was read; -1 for a handle that was not read.
    """

    name: str
    data: bytes
    position: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class FileStream:
    """`FileStateHandle` (tag 2): a file by its absolute URI, as Flink spells it; `size` is -1 if it is unknown."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class RelativeFileStream:
    """`RelativeFileStateHandle` (tag 6): `path` is relative to the directory of `_metadata` and may contain `..`."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class KeyGroupsStream:
    """`KeyGroupsStateHandle` (tag 3) in place of a stream. Flink still reads this handle, but no longer writes it."""

    first_key_group: int
    offsets: tuple[int, ...]
    stream: Stream


@dataclass(frozen=True, slots=True)
class SegmentStream:
    """`SegmentFileStateHandle` (tag 15): `size` bytes at `start` of a file that several handles share.

    `scope` is the ordinal of `CheckpointedStateScope`: 0 exclusive, 1 shared.
    """

    path: str
    start: int
    size: int
    scope: int
    logical_file_id: str


@dataclass(frozen=True, slots=True)
class EmptySegmentStream:
    """`EmptySegmentFileStateHandle` (tag 16): a handle of no bytes, which is not the same as a missing handle."""


Stream: TypeAlias = (
    InlineStream | FileStream | RelativeFileStream | KeyGroupsStream | SegmentStream | EmptySegmentStream
)


def _check_optional_fields(tag: int, has_fields_by_tag: dict[int, bool], *fields: object) -> None:
    """Raise `ValueError` unless the tag is known, and either all `fields` are set, or all are None.

    They must be set if `has_fields_by_tag[tag]` is true, and None if it is false.
    """
    if tag not in has_fields_by_tag or any((field is not None) != has_fields_by_tag[tag] for field in fields):
        raise ValueError(f"a handle with tag {tag} cannot have the fields {fields}")


@dataclass(frozen=True, slots=True)
class KeyGroupsHandle:
    """Key groups as byte ranges of one stream; `offsets[i]` belongs to key group `first_key_group + i`.

    `tag` is 3 or 12 (`KeyGroupsStateHandle`) or 7 (`KeyGroupsSavepointStateHandle`); only tag 12 has a `handle_id`.
    """

    tag: int
    first_key_group: int
    offsets: tuple[int, ...]
    stream: Stream
    handle_id: str | None = None

    def __post_init__(self) -> None:
        has_optional_fields: dict[int, bool] = {
            HandleTag.KEY_GROUPS: False,
            HandleTag.SAVEPOINT_KEY_GROUPS: False,
            HandleTag.KEY_GROUPS_V2: True,
        }
        _check_optional_fields(self.tag, has_optional_fields, self.handle_id)


@dataclass(frozen=True, slots=True)
class RocksdbFile:
    """A file of a RocksDB directory (`HandleAndLocalPath`): its name in the directory, and its content."""

    name: str
    stream: Stream


@dataclass(frozen=True, slots=True)
class IncrementalHandle:
    """`IncrementalRemoteKeyedStateHandle` (tags 5 and 11): a RocksDB directory, file by file.

    It has `key_group_count` key groups, from `first_key_group` on. `meta` is the stream with the header of the keyed
    state. `checkpointed_size` and `handle_id` belong to tag 11.
    """

    tag: int
    checkpoint_id: int
    backend_id: str
    first_key_group: int
    key_group_count: int
    checkpointed_size: int | None
    meta: Stream
    shared: tuple[RocksdbFile, ...]
    private: tuple[RocksdbFile, ...]
    handle_id: str | None

    def __post_init__(self) -> None:
        has_optional_fields: dict[int, bool] = {HandleTag.INCREMENTAL: False, HandleTag.INCREMENTAL_V2: True}
        _check_optional_fields(self.tag, has_optional_fields, self.checkpointed_size, self.handle_id)


@dataclass(frozen=True, slots=True)
class StateChange:
    """Change in an in-memory changelog; `key_group` is -1 if the change describes a state."""

    key_group: int
    data: bytes


@dataclass(frozen=True, slots=True)
class InMemoryChangelogHandle:
    """`InMemoryChangelogStateHandle` (tag 9): the changes with sequence numbers `start` to `end`.

    `position` is the offset of the first change in the bytes from which the handle was read; -1 if it was not read.
    """

    first_key_group: int
    key_group_count: int
    start: int
    end: int
    changes: tuple[StateChange, ...]
    handle_id: str
    position: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class ChangelogStreamHandle:
    """`ChangelogStateHandleStreamImpl` (tags 10 and 13): a log of changes in streams.

    `change_sets` has (offset, stream) of each change set, in order. `storage_id` belongs to tag 13.
    """

    tag: int
    first_key_group: int
    key_group_count: int
    change_sets: tuple[tuple[int, Stream], ...]
    state_size: int
    checkpointed_size: int
    handle_id: str
    storage_id: str | None

    def __post_init__(self) -> None:
        has_optional_fields: dict[int, bool] = {HandleTag.CHANGELOG_STREAM: False, HandleTag.CHANGELOG_STREAM_V2: True}
        _check_optional_fields(self.tag, has_optional_fields, self.storage_id)


ChangelogDelta: TypeAlias = InMemoryChangelogHandle | ChangelogStreamHandle


@dataclass(frozen=True, slots=True)
class ChangelogHandle:
    """`ChangelogStateBackendHandleImpl` (tags 8 and 14): a materialised `base`, and in `delta` the later changes.

    `checkpoint_id` belongs to tag 14.
    """

    tag: int
    first_key_group: int
    key_group_count: int
    checkpointed_size: int
    base: tuple[KeyedHandle, ...]
    delta: tuple[ChangelogDelta, ...]
    materialization_id: int
    checkpoint_id: int | None
    handle_id: str

    def __post_init__(self) -> None:
        has_optional_fields: dict[int, bool] = {HandleTag.CHANGELOG: False, HandleTag.CHANGELOG_V2: True}
        _check_optional_fields(self.tag, has_optional_fields, self.checkpoint_id)


KeyedHandle: TypeAlias = KeyGroupsHandle | IncrementalHandle | ChangelogHandle | ChangelogDelta


@dataclass(frozen=True, slots=True)
class OperatorStateOffsets:
    """Offsets in the stream: of all elements of a list state, or of the only element (a map) of a broadcast state."""

    name: str
    mode: DistributionMode
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FileMerging:
    """Fields that `FileMergingOperatorStreamStateHandle` (tag 17) adds to tag 4."""

    task_owned_dir: str
    shared_dir: str
    is_empty: bool


@dataclass(frozen=True, slots=True)
class OperatorHandle:
    """`OperatorStreamStateHandle` (tag 4), or, with `merging`, `FileMergingOperatorStreamStateHandle` (tag 17)."""

    states: tuple[OperatorStateOffsets, ...]
    stream: Stream
    merging: FileMerging | None = None


@dataclass(frozen=True, slots=True)
class SingleChannelHandle:
    """Buffers of a channel (`InputChannelStateHandle`, `ResultSubpartitionStateHandle`).

    `subtask` is the index of the subtask at the checkpoint. `group` and `channel` are an input gate and its channel, or
    a result partition and its subpartition.
    """

    subtask: int
    group: int
    channel: int
    offsets: tuple[int, ...]
    state_size: int
    stream: Stream


@dataclass(frozen=True, slots=True)
class MergedChannelHandle:
    """Buffers of all channels of a subtask in a shared stream (`AbstractMergedChannelStateHandle`, since Flink 2.1).

    `packed_offsets` contains the coordinates, sizes and offsets of the channels, as Flink packs them.
    """

    subtask: int
    state_size: int
    stream: Stream
    packed_offsets: bytes


ChannelHandle: TypeAlias = SingleChannelHandle | MergedChannelHandle
