"""The streams that handles name, and the bytes of state that they record."""

from __future__ import annotations

from rescale.flink.metadata.checkpoint_metadata import OperatorState, Subtask, SubtaskState
from rescale.flink.metadata.handles import (
    ChangelogHandle,
    ChangelogStreamHandle,
    EmptySegmentStream,
    HandleTag,
    IncrementalHandle,
    InlineStream,
    InMemoryChangelogHandle,
    KeyGroupsHandle,
    KeyGroupsStream,
    MergedChannelHandle,
    OperatorHandle,
    RelativeFileStream,
    RocksdbFile,
    StateChange,
    Stream,
)
from rescale.snapshot.reading.handle_streams import bytes_of, bytes_of_changes, has_changes, keyed_streams, streams_of

INLINE, SHARED, PRIVATE = InlineStream("meta", b"12345"), RelativeFileStream("a", 100), RelativeFileStream("b", 20)
DATABASE = IncrementalHandle(
    HandleTag.INCREMENTAL, 1, "", 0, 4, None, INLINE, (RocksdbFile("1", SHARED),), (RocksdbFile("2", PRIVATE),), None
)
IN_MEMORY_CHANGES = InMemoryChangelogHandle(0, 4, 0, 1, (StateChange(1, b"abc"), StateChange(-1, b"")), "id")


def changelog_stream(*streams: Stream, size: int = 50) -> ChangelogStreamHandle:
    sets = tuple((0, stream) for stream in streams)
    return ChangelogStreamHandle(HandleTag.CHANGELOG_STREAM, 0, 4, sets, size, 0, "id", None)


def changelog(*delta: InMemoryChangelogHandle | ChangelogStreamHandle) -> ChangelogHandle:
    return ChangelogHandle(HandleTag.CHANGELOG, 0, 4, 0, (DATABASE,), delta, 1, None, "id")


def operator_entry(*states: SubtaskState | None) -> OperatorState:
    subtasks = tuple(Subtask(i, state is None, state) for i, state in enumerate(states))
    return OperatorState("1" * 32, "", "", len(states), 4, None, subtasks)


def test_all_streams_of_keyed_state_are_named_at_any_depth() -> None:
    assert list(keyed_streams(None)) == []
    assert list(keyed_streams(DATABASE)) == [INLINE, SHARED, PRIVATE]
    assert list(keyed_streams(changelog(IN_MEMORY_CHANGES, changelog_stream(PRIVATE)))) == [
        INLINE,
        SHARED,
        PRIVATE,
        PRIVATE,
    ]


def test_bytes_of_an_operator_are_those_of_all_slots_and_subtasks() -> None:
    elements = OperatorHandle((), PRIVATE)
    groups = KeyGroupsHandle(HandleTag.KEY_GROUPS, 0, (), KeyGroupsStream(0, (), SHARED))
    channel = MergedChannelHandle(0, 7, RelativeFileStream("c", 1000), b"")
    operator = operator_entry(
        SubtaskState(managed_operator=elements, raw_operator=elements, managed_keyed=DATABASE, raw_keyed=groups),
        None,
        SubtaskState(managed_keyed=DATABASE, output_channels=(channel,)),
    )
    assert list(streams_of(operator)) == [
        *(PRIVATE, PRIVATE, INLINE, SHARED, PRIVATE, groups.stream),
        *(INLINE, SHARED, PRIVATE, channel.stream),
    ]
    assert bytes_of(operator) == (20 + 20 + 125 + 100) + (125 + 7)


def test_file_that_a_handle_names_twice_counts_once_and_an_unknown_size_as_0() -> None:
    handle = changelog(
        changelog_stream(PRIVATE), changelog_stream(PRIVATE, RelativeFileStream("d", -1), EmptySegmentStream())
    )
    assert bytes_of(operator_entry(SubtaskState(managed_keyed=handle))) == 125


def test_size_of_changes_is_the_size_that_their_handle_records() -> None:
    assert bytes_of_changes(IN_MEMORY_CHANGES) == (8 + 3) + 8
    assert bytes_of_changes(changelog_stream(SHARED)) == 50
    assert bytes_of_changes(changelog_stream(SHARED, size=-1)) == 0
    assert has_changes(IN_MEMORY_CHANGES)
    assert has_changes(changelog_stream(SHARED))
    assert not has_changes(changelog_stream())
    assert not has_changes(InMemoryChangelogHandle(0, 4, 0, 0, (), "id"))
