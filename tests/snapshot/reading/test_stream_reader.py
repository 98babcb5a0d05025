"""Streams of single handles: what is read of them, and handles that cannot be right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from rescale.flink.key_groups import KeyGroupRange
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.metadata.checkpoint_metadata import OperatorState, Subtask, SubtaskState
from rescale.flink.metadata.handles import (
    ChangelogHandle,
    ChangelogStreamHandle,
    DistributionMode,
    EmptySegmentStream,
    HandleTag,
    IncrementalHandle,
    InMemoryChangelogHandle,
    KeyGroupsHandle,
    OperatorHandle,
    OperatorStateOffsets,
    RelativeFileStream,
    RocksdbFile,
    SegmentStream,
    Stream,
)
from rescale.snapshot.keyed_state import KeyedStream
from rescale.snapshot.locate import Extent, Locator
from rescale.snapshot.reading.stream_reader import StreamReader
from rescale.storage.store import open_store
from rescale.text.errors import SnapshotError
from support.snapshot_bytes import keyed_header, keyed_state

HEADER = keyed_header(keyed_state("sum"))
GROUP_BYTES = 10
"""Bytes of a key group."""


def stream_bytes(group_count: int) -> bytes:
    return HEADER + bytes(group_count * GROUP_BYTES)


def offset_of(group: int) -> int:
    """Return the offset of a key group behind the header."""
    return len(HEADER) + group * GROUP_BYTES


def handle(stream: Stream, first_key_group: int, *offsets: int) -> KeyGroupsHandle:
    return KeyGroupsHandle(HandleTag.SAVEPOINT_KEY_GROUPS, first_key_group, offsets, stream)


def database_handle(stream: Stream, *names: str) -> IncrementalHandle:
    files = tuple(RocksdbFile(name, RelativeFileStream("file", 1)) for name in names)
    return IncrementalHandle(HandleTag.INCREMENTAL, 1, "backend", 10, 4, None, stream, files, (), None)


def changelog(*base: Any, delta: Sequence[Any] = (), first: int = 0, key_groups: int = 4) -> ChangelogHandle:
    return ChangelogHandle(HandleTag.CHANGELOG, first, key_groups, 0, base, tuple(delta), 1, None, "id")


def changelog_stream(*sets: tuple[int, Stream]) -> ChangelogStreamHandle:
    return ChangelogStreamHandle(HandleTag.CHANGELOG_STREAM, 0, 4, sets, 0, 0, "id", None)


@pytest.fixture
def make_reader(tmp_path: Path) -> Callable[..., StreamReader]:
    """Return a function that makes a reader of these files, by name; None is a missing one."""

    def new_reader(
        streams: Sequence[Stream], entries: Sequence[OperatorState] = (), **files: bytes | None
    ) -> StreamReader:
        locator = Locator(str(tmp_path / "_metadata"), str(tmp_path), ())
        for name, content in {"file": b"x", **files}.items():
            if content is not None:
                (tmp_path / name).write_bytes(content)
        for stream in (*streams, RelativeFileStream("file", 1)):
            locator.extent(stream)
        (tmp_path / "_metadata").write_bytes(b"metadata")
        store = open_store(str(tmp_path))
        pins = {uri: store.stat(uri) for uri in locator.files}
        some_pin = pins[locator.files[0]]
        assert some_pin is not None
        missing = frozenset(uri for uri, pin in pins.items() if pin is None)
        return StreamReader(
            b"metadata", tuple((uri, pin or some_pin) for uri, pin in pins.items()), missing, locator, entries, 2
        )

    return new_reader


def test_key_groups_of_a_stream_end_where_the_next_one_begins(make_reader: Callable[..., StreamReader]) -> None:
    stream = RelativeFileStream("a", len(stream_bytes(3)))
    keyed_stream = make_reader([stream], a=stream_bytes(3)).keyed(
        "sums", 1, handle(stream, 8, offset_of(0), 0, offset_of(1), offset_of(2))
    )
    assert (keyed_stream.subtask, keyed_stream.framing, keyed_stream.key_groups) == (
        1,
        Framing.CANONICAL,
        KeyGroupRange(8, 11),
    )
    assert [group and (group.start, group.length) for group in keyed_stream.groups] == [
        (offset_of(0), GROUP_BYTES),
        None,
        (offset_of(1), GROUP_BYTES),
        (offset_of(2), GROUP_BYTES),
    ]
    assert keyed_stream.header == HEADER
    assert keyed_stream.state_names == ("sum",)


def test_key_groups_of_a_shared_base_end_where_those_of_other_subtasks_begin(
    make_reader: Callable[..., StreamReader],
) -> None:
    stream = RelativeFileStream("a", len(stream_bytes(4)))
    parts = [handle(stream, 0, offset_of(0), offset_of(1)), handle(stream, 2, offset_of(2), offset_of(3))]
    subtasks = tuple(
        Subtask(i, False, SubtaskState(managed_keyed=changelog(part, first=2 * i, key_groups=2)))
        for i, part in enumerate(parts)
    )
    reader = make_reader([stream], [OperatorState("1" * 32, "", "", 2, 4, None, subtasks)], a=stream_bytes(4))
    for i, part in enumerate(parts):
        (base,) = reader.changelog("sums", i, changelog(part, first=2 * i, key_groups=2)).changelog.base
        assert isinstance(base, KeyedStream)
        assert [group and (group.start, group.length) for group in base.groups] == [
            (offset_of(2 * i), GROUP_BYTES),
            (offset_of(2 * i + 1), GROUP_BYTES),
        ]
        assert base.header == HEADER


def test_base_is_limited_to_the_key_groups_of_its_subtask(make_reader: Callable[..., StreamReader]) -> None:
    stream = RelativeFileStream("a", len(stream_bytes(4)))
    reader = make_reader([stream], a=stream_bytes(4))
    part = handle(stream, 0, *map(offset_of, range(4)))
    (base,) = reader.changelog("sums", 0, changelog(part, first=1, key_groups=2)).changelog.base
    assert isinstance(base, KeyedStream)
    assert base.key_groups == KeyGroupRange(1, 2)
    assert [group and group.start for group in base.groups] == [offset_of(1), offset_of(2)]


@pytest.mark.parametrize("size_difference", [-1, 1])
def test_file_whose_size_differs_from_its_handle_is_refused(
    make_reader: Callable[..., StreamReader], size_difference: int
) -> None:
    stream = RelativeFileStream("a", len(stream_bytes(1)) + size_difference)
    with pytest.raises(SnapshotError, match="does not have the size") as caught:
        make_reader([stream], a=stream_bytes(1)).keyed("sums", 0, handle(stream, 0, offset_of(0)))
    assert (caught.value.operator, caught.value.expected) == ("sums", f"{stream.size} bytes")
    assert (caught.value.path or "").endswith("/a")


def test_segment_beyond_the_end_of_its_file_is_refused(
    make_reader: Callable[..., StreamReader], tmp_path: Path
) -> None:
    data = b"other" + stream_bytes(1)
    whole_segment = SegmentStream(str(tmp_path / "a"), 5, len(stream_bytes(1)), 1, "id")
    long_segment = SegmentStream(str(tmp_path / "a"), 6, len(stream_bytes(1)), 1, "id")
    reader = make_reader([whole_segment], a=data)
    assert reader.keyed("sums", 0, handle(whole_segment, 0, offset_of(0))).groups == (
        Extent(1, 5 + offset_of(0), GROUP_BYTES),
    )
    with pytest.raises(SnapshotError, match="does not have the size"):
        reader.keyed("sums", 0, handle(long_segment, 0, offset_of(0)))


def test_stream_in_a_missing_file_has_key_groups_but_no_header(make_reader: Callable[..., StreamReader]) -> None:
    stream = RelativeFileStream("a", len(stream_bytes(1)))
    reader = make_reader([stream], a=None)
    keyed_stream = reader.keyed("sums", 0, handle(stream, 0, offset_of(0)))
    assert (keyed_stream.header, keyed_stream.parsed, keyed_stream.groups[0] is None) == (b"", None, False)
    state = SubtaskState(managed_keyed=handle(stream, 0, offset_of(0)))
    entry = OperatorState("1" * 32, "", "", 1, 1, None, (Subtask(0, False, state),))
    assert not reader.is_whole(entry)


def test_too_long_header_is_refused(make_reader: Callable[..., StreamReader]) -> None:
    stream = RelativeFileStream("a", len(stream_bytes(1)))
    with (
        patch("rescale.snapshot.reading.stream_reader.HEADER_LIMIT_BYTES", len(HEADER) - 1),
        pytest.raises(SnapshotError, match="the header of a state stream is too long"),
    ):
        make_reader([stream], a=stream_bytes(1)).keyed("sums", 0, handle(stream, 0, offset_of(0)))


def test_element_ends_where_the_next_element_of_any_state_begins(make_reader: Callable[..., StreamReader]) -> None:
    stream = RelativeFileStream("a", 30)
    states = (
        OperatorStateOffsets("offsets", DistributionMode.SPLIT_DISTRIBUTE, (0, 20)),
        OperatorStateOffsets("rules", DistributionMode.UNION, (5,)),
    )
    element_stream = make_reader([stream], a=bytes(30)).elements(
        "source", 2, OperatorHandle(states, stream), is_raw=True
    )
    assert element_stream is not None
    assert [[(e.start, e.length) for e in state.elements] for state in element_stream.states] == [
        [(0, 5), (20, 10)],
        [(5, 15)],
    ]
    empty = OperatorHandle((), EmptySegmentStream())
    assert make_reader([]).elements("source", 2, empty, is_raw=False) is None


@pytest.mark.parametrize(
    ("names", "invalid"), [(("1.sst", "../2.sst"), "../2.sst"), (("1.sst", "1.sst"), "the same name twice")]
)
def test_file_names_that_flink_never_writes_are_refused(
    make_reader: Callable[..., StreamReader], names: tuple[str, ...], invalid: str
) -> None:
    stream = RelativeFileStream("a", len(HEADER))
    reader = make_reader([stream], a=HEADER)
    assert reader.database("sums", 0, database_handle(stream, "1.sst", "2.sst")).key_groups == KeyGroupRange(10, 13)
    with pytest.raises(SnapshotError, match="invalid or repeated file names") as caught:
        reader.database("sums", 0, database_handle(stream, *names))
    assert caught.value.found == invalid


def test_handles_of_an_invalid_kind_are_refused(make_reader: Callable[..., StreamReader]) -> None:
    stream = RelativeFileStream("a", len(HEADER))
    reader = make_reader([stream], a=HEADER)
    with pytest.raises(SnapshotError, match="raw keyed state has a handle of an invalid kind") as caught:
        reader.raw_keyed("timers", 0, database_handle(stream))
    assert caught.value.found == "IncrementalHandle"
    with pytest.raises(SnapshotError, match="the changelog of subtask 3 has a base of an invalid kind") as caught:
        reader.changelog("sums", 3, changelog(changelog()))
    assert caught.value.found == "ChangelogHandle"
    with pytest.raises(SnapshotError, match="the keyed state of subtask 3 has no stream"):
        reader.keyed("sums", 3, handle(EmptySegmentStream(), 0, 1))


@pytest.mark.parametrize("places", [[(-1, RelativeFileStream("file", 1))], [(0, EmptySegmentStream())]])
def test_change_set_without_a_valid_place_is_refused(
    make_reader: Callable[..., StreamReader], places: list[tuple[int, Stream]]
) -> None:
    with pytest.raises(SnapshotError, match="a change set without a valid place") as caught:
        make_reader([]).changelog("sums", 0, changelog(delta=[changelog_stream(*places)]))
    assert caught.value.found == f"{type(places[0][1]).__name__} at {places[0][0]}"


def test_changelog_file_may_be_one_byte_longer_than_its_handle_records(
    make_reader: Callable[..., StreamReader],
) -> None:
    """The first byte tells whether the file is compressed."""
    for size, is_right in ((9, True), (10, True), (8, False), (11, False)):
        stream = RelativeFileStream("a", size)
        reader = make_reader([stream], a=bytes(10))
        if is_right:
            (changes,) = reader._change_sets("sums", 0, changelog_stream((0, stream)))
            assert changes.extent.length == 10
        else:
            with pytest.raises(SnapshotError, match="does not have the size"):
                list(reader._change_sets("sums", 0, changelog_stream((0, stream))))


def test_changelog_without_base_and_changes_is_read(make_reader: Callable[..., StreamReader]) -> None:
    no_changes = InMemoryChangelogHandle(0, 4, 0, 0, (), "id")
    subtask_changelog = make_reader([]).changelog("sums", 0, changelog(delta=[no_changes]))
    assert (subtask_changelog.changelog.base, subtask_changelog.changelog.changes) == ((), ())
