"""Reader and writer of keyed state handles (`serializeKeyedStateHandle`).

When Flink added fields to a handle, it introduced a second tag: 12 beside 3, 11 beside 5, 14 beside 8, and 13 beside
10. Handles keep their `tag`, so each handle is written with the tag with which it was read.
"""

from __future__ import annotations

from rescale.flink.encoding.binary import ByteReader, ByteWriter
from rescale.flink.metadata.handles import (
    ChangelogDelta,
    ChangelogHandle,
    ChangelogStreamHandle,
    HandleTag,
    IncrementalHandle,
    InMemoryChangelogHandle,
    KeyedHandle,
    KeyGroupsHandle,
    RocksdbFile,
    StateChange,
)
from rescale.flink.metadata.stream_handles import (
    check_nesting,
    read_key_group_offsets,
    read_key_group_range,
    read_stream,
    unknown_tag_error,
    write_key_group_offsets,
    write_key_group_range,
    write_stream,
)

METADATA_KEY_GROUP = -1
"""`StateChange.META_KEY_GROUP`."""


def read_keyed(reader: ByteReader, depth: int = 0) -> KeyedHandle | None:
    """Return the keyed handle at the reader's position, None for tag 0; `depth` is the number of enclosing handles.

    Raises `SnapshotError` for a damaged handle and for an unknown tag.
    """
    at = reader.position
    tag = reader.u8()
    if tag != HandleTag.NULL:
        check_nesting(reader, at, depth)
    match tag:
        case HandleTag.NULL:
            return None
        case HandleTag.KEY_GROUPS | HandleTag.KEY_GROUPS_V2 | HandleTag.SAVEPOINT_KEY_GROUPS:
            return _read_key_groups(reader, tag, depth)
        case HandleTag.INCREMENTAL | HandleTag.INCREMENTAL_V2:
            return _read_incremental(reader, tag, depth)
        case HandleTag.CHANGELOG | HandleTag.CHANGELOG_V2:
            return _read_changelog(reader, tag, depth)
        case HandleTag.IN_MEMORY_CHANGELOG:
            return _read_in_memory_changelog(reader)
        case HandleTag.CHANGELOG_STREAM | HandleTag.CHANGELOG_STREAM_V2:
            return _read_changelog_stream(reader, tag, depth)
    raise unknown_tag_error(reader, at, "keyed state handle", "0, 3, 5 or 7 to 14")


def write_keyed(out: ByteWriter, handle: KeyedHandle | None) -> None:
    """Write a keyed handle; the inverse of `read_keyed`."""
    match handle:
        case None:
            out.u8(HandleTag.NULL)
        case KeyGroupsHandle():
            _write_key_groups(out, handle)
        case IncrementalHandle():
            _write_incremental(out, handle)
        case ChangelogHandle():
            _write_changelog(out, handle)
        case InMemoryChangelogHandle():
            _write_in_memory_changelog(out, handle)
        case ChangelogStreamHandle():
            _write_changelog_stream(out, handle)


def _read_key_groups(reader: ByteReader, tag: int, depth: int) -> KeyGroupsHandle:
    first, offsets = read_key_group_offsets(reader)
    stream = read_stream(reader, depth + 1)
    return KeyGroupsHandle(
        tag, first, offsets, stream, handle_id=reader.utf() if tag == HandleTag.KEY_GROUPS_V2 else None
    )


def _write_key_groups(out: ByteWriter, handle: KeyGroupsHandle) -> None:
    out.u8(handle.tag)
    write_key_group_offsets(out, handle.first_key_group, handle.offsets)
    write_stream(out, handle.stream)
    if handle.handle_id is not None:
        out.utf(handle.handle_id)


def _read_incremental(reader: ByteReader, tag: int, depth: int) -> IncrementalHandle:
    is_v2 = tag == HandleTag.INCREMENTAL_V2
    checkpoint_id, backend_id = reader.i64(), reader.utf()
    first, count = read_key_group_range(reader)
    return IncrementalHandle(
        tag,
        checkpoint_id,
        backend_id,
        first,
        count,
        checkpointed_size=reader.i64() if is_v2 else None,
        meta=read_stream(reader, depth + 1),
        shared=_read_files(reader, depth),
        private=_read_files(reader, depth),
        handle_id=reader.utf() if is_v2 else None,
    )


def _write_incremental(out: ByteWriter, handle: IncrementalHandle) -> None:
    out.u8(handle.tag).i64(handle.checkpoint_id).utf(handle.backend_id)
    write_key_group_range(out, handle.first_key_group, handle.key_group_count)
    if handle.checkpointed_size is not None:
        out.i64(handle.checkpointed_size)
    write_stream(out, handle.meta)
    _write_files(out, handle.shared)
    _write_files(out, handle.private)
    if handle.handle_id is not None:
        out.utf(handle.handle_id)


def _read_files(reader: ByteReader, depth: int) -> tuple[RocksdbFile, ...]:
    count = reader.count(item_size=3)
    return tuple(RocksdbFile(reader.utf(), read_stream(reader, depth + 1)) for _ in range(count))


def _write_files(out: ByteWriter, files: tuple[RocksdbFile, ...]) -> None:
    out.i32(len(files))
    for file in files:
        out.utf(file.name)
        write_stream(out, file.stream)


def _read_changelog(reader: ByteReader, tag: int, depth: int) -> ChangelogHandle:
    first, count = read_key_group_range(reader)
    return ChangelogHandle(
        tag,
        first,
        count,
        checkpointed_size=reader.i64(),
        base=tuple(_read_base(reader, depth + 1) for _ in range(reader.count(item_size=1))),
        delta=tuple(_read_delta(reader, depth + 1) for _ in range(reader.count(item_size=1))),
        materialization_id=reader.i64(),
        checkpoint_id=reader.i64() if tag == HandleTag.CHANGELOG_V2 else None,
        handle_id=reader.utf(),
    )


def _write_changelog(out: ByteWriter, handle: ChangelogHandle) -> None:
    out.u8(handle.tag)
    write_key_group_range(out, handle.first_key_group, handle.key_group_count)
    out.i64(handle.checkpointed_size)
    for handles in (handle.base, handle.delta):
        out.i32(len(handles))
        for nested in handles:
            write_keyed(out, nested)
    out.i64(handle.materialization_id)
    if handle.checkpoint_id is not None:
        out.i64(handle.checkpoint_id)
    out.utf(handle.handle_id)


def _read_base(reader: ByteReader, depth: int) -> KeyedHandle:
    """Return a handle of the base. Raises `SnapshotError` for a null handle, which Flink would drop with a warning."""
    at = reader.position
    handle = read_keyed(reader, depth)
    if handle is None:
        raise reader.error("a null handle in the base of a changelog handle", at=at, expected="a keyed state handle")
    return handle


def _read_delta(reader: ByteReader, depth: int) -> ChangelogDelta:
    at = reader.position
    handle = read_keyed(reader, depth)
    if not isinstance(handle, InMemoryChangelogHandle | ChangelogStreamHandle):
        raise reader.error(
            "the delta of a changelog handle is no log of changes",
            at=at,
            expected="tag 9, 10 or 13",
            found=f"tag {reader.data[at]}",
        )
    return handle


def _read_in_memory_changelog(reader: ByteReader) -> InMemoryChangelogHandle:
    first, count = read_key_group_range(reader)
    start, end = (reader.non_negative(reader.i64, "sequence number") for _ in range(2))
    change_count = reader.count(item_size=8)
    position = reader.position
    changes = tuple(_read_change(reader) for _ in range(change_count))
    return InMemoryChangelogHandle(first, count, start, end, changes, reader.utf(), position)


def _write_in_memory_changelog(out: ByteWriter, handle: InMemoryChangelogHandle) -> None:
    out.u8(HandleTag.IN_MEMORY_CHANGELOG)
    write_key_group_range(out, handle.first_key_group, handle.key_group_count)
    out.i64(handle.start).i64(handle.end)
    out.i32(len(handle.changes))
    for change in handle.changes:
        out.i32(change.key_group).blob(change.data)
    out.utf(handle.handle_id)


def _read_change(reader: ByteReader) -> StateChange:
    at = reader.position
    key_group = reader.i32()
    if key_group < METADATA_KEY_GROUP:
        raise reader.error("not a key group", at=at, expected="-1 or more", found=key_group)
    return StateChange(key_group, reader.blob())


def _read_changelog_stream(reader: ByteReader, tag: int, depth: int) -> ChangelogStreamHandle:
    first, count = read_key_group_range(reader)
    return ChangelogStreamHandle(
        tag,
        first,
        count,
        change_sets=tuple((reader.i64(), read_stream(reader, depth + 1)) for _ in range(reader.count(item_size=9))),
        state_size=reader.i64(),
        checkpointed_size=reader.i64(),
        handle_id=reader.utf(),
        storage_id=reader.utf() if tag == HandleTag.CHANGELOG_STREAM_V2 else None,
    )


def _write_changelog_stream(out: ByteWriter, handle: ChangelogStreamHandle) -> None:
    out.u8(handle.tag)
    write_key_group_range(out, handle.first_key_group, handle.key_group_count)
    out.i32(len(handle.change_sets))
    for offset, stream in handle.change_sets:
        out.i64(offset)
        write_stream(out, stream)
    out.i64(handle.state_size).i64(handle.checkpointed_size).utf(handle.handle_id)
    if handle.storage_id is not None:
        out.utf(handle.storage_id)
