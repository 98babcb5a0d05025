"""Keyed handles keep their tag, and bytes that Flink would drop or misread are errors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rescale.flink.encoding.binary import ByteReader, ByteWriter
from rescale.flink.metadata.handles import (
    ChangelogHandle,
    ChangelogStreamHandle,
    FileStream,
    HandleTag,
    IncrementalHandle,
    InMemoryChangelogHandle,
    KeyedHandle,
    KeyGroupsHandle,
    RocksdbFile,
    StateChange,
)
from rescale.flink.metadata.keyed_handles import read_keyed, write_keyed
from rescale.flink.metadata.stream_handles import MAX_NESTING
from rescale.text.errors import SnapshotError

FILE = FileStream("s3://bucket/file", 9)
GROUPS = KeyGroupsHandle(HandleTag.KEY_GROUPS, 0, (0, 4), FILE, None)
FILES = (RocksdbFile("1.sst", FILE),)
DIRECTORY = IncrementalHandle(HandleTag.INCREMENTAL, 7, "backend", 0, 2, None, FILE, FILES, (), None)
IN_MEMORY = InMemoryChangelogHandle(0, 2, 1, 2, (StateChange(-1, b"ab"), StateChange(1, b"")), "id")
STREAMED = ChangelogStreamHandle(HandleTag.CHANGELOG_STREAM, 0, 2, ((1, FILE),), 9, 9, "id", None)
CHANGELOG = ChangelogHandle(HandleTag.CHANGELOG, 0, 2, 9, (DIRECTORY,), (IN_MEMORY, STREAMED), 3, None, "id")
HANDLES_OF_BOTH_FORMS: tuple[KeyedHandle, ...] = (
    GROUPS,
    replace(GROUPS, tag=HandleTag.KEY_GROUPS_V2, handle_id="id"),
    replace(GROUPS, tag=HandleTag.SAVEPOINT_KEY_GROUPS),
    DIRECTORY,
    replace(DIRECTORY, tag=HandleTag.INCREMENTAL_V2, checkpointed_size=5, handle_id="id"),
    IN_MEMORY,
    STREAMED,
    replace(STREAMED, tag=HandleTag.CHANGELOG_STREAM_V2, storage_id="filesystem"),
    CHANGELOG,
    replace(CHANGELOG, tag=HandleTag.CHANGELOG_V2, checkpoint_id=4),
)


def handle_bytes(handle: KeyedHandle | None) -> bytes:
    out = ByteWriter()
    write_keyed(out, handle)
    return bytes(out.data)


def read(data: bytes) -> KeyedHandle | None:
    reader = ByteReader(data, "/place")
    handle = read_keyed(reader)
    assert reader.remaining == 0
    return handle


@pytest.mark.parametrize(
    "handle", HANDLES_OF_BOTH_FORMS, ids=lambda handle: f"tag {handle.tag}" if hasattr(handle, "tag") else "9"
)
def test_handle_is_read_as_written_in_the_form_of_its_tag(handle: KeyedHandle) -> None:
    data = handle_bytes(handle)
    assert data[0] == getattr(handle, "tag", HandleTag.IN_MEMORY_CHANGELOG)
    assert read(data) == handle


def test_no_handle_is_a_single_tag() -> None:
    assert handle_bytes(None) == b"\0"
    assert read(b"\0") is None


@pytest.mark.parametrize("tag", [1, 2, 4, 6, 15, 255])
def test_tags_of_other_handles_are_unknown(tag: int) -> None:
    with pytest.raises(SnapshotError, match="not a tag of a keyed state handle") as caught:
        read(bytes([tag]))
    assert (caught.value.path, caught.value.offset) == ("/place", 0)


def test_parts_of_a_changelog_that_flink_would_drop_are_errors() -> None:
    data = handle_bytes(replace(CHANGELOG, base=(GROUPS,), delta=(IN_MEMORY,)))
    base_offset, delta_offset = data.index(handle_bytes(GROUPS)), data.index(handle_bytes(IN_MEMORY))
    for at, part, what in (
        (base_offset, GROUPS, "a null handle in the base"),
        (delta_offset, IN_MEMORY, "no log of changes"),
    ):
        data_without_part = data[:at] + b"\0" + data[at + len(handle_bytes(part)) :]
        with pytest.raises(SnapshotError, match=what) as caught:
            read(data_without_part)
        assert caught.value.offset == at
    groups_as_delta = data[:delta_offset] + handle_bytes(GROUPS) + data[delta_offset + len(handle_bytes(IN_MEMORY)) :]
    with pytest.raises(SnapshotError, match="no log of changes") as caught:
        read(groups_as_delta)
    assert caught.value.found == "tag 3"


def test_changes_have_possible_key_groups_and_sequence_numbers() -> None:
    for damaged_handle, what in (
        (replace(IN_MEMORY, start=-1), "a negative sequence number"),
        (replace(IN_MEMORY, changes=(StateChange(-2, b""),)), "not a key group"),
    ):
        with pytest.raises(SnapshotError, match=what):
            read(handle_bytes(damaged_handle))


def test_nesting_is_limited() -> None:
    nested: KeyedHandle = GROUPS
    for _ in range(MAX_NESTING):
        nested = replace(CHANGELOG, base=(nested,), delta=())
    with pytest.raises(SnapshotError, match="handles are nested too deep"):
        read(handle_bytes(nested))
