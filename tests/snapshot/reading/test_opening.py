"""Opening a snapshot: what is read from `_metadata` and from the headers of its streams."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from big_savepoint import write_savepoint
from rescale.flink.key_groups import KeyGroupRange, key_group_range
from rescale.flink.metadata.checkpoint_metadata import OperatorState, Subtask, SubtaskState
from rescale.flink.metadata.handles import (
    ChangelogDelta,
    ChangelogHandle,
    FileStream,
    InMemoryChangelogHandle,
    KeyGroupsHandle,
)
from rescale.flink.metadata.reader import read_metadata
from rescale.flink.metadata.writer import write_metadata
from rescale.snapshot.keyed_state import KeyedStream
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import SnapshotError
from support import snapshots
from support.edited import edit_operators, relocated
from support.s3 import S3Server, put_files, requests_of

HEAP_FIXTURE = "2-heap-native"


def in_changelog(operator: OperatorState, delta: tuple[ChangelogDelta, ...]) -> OperatorState:
    """The operator as a changelog backend describes it: its state materialised, and the changes since."""

    def wrapped(state: SubtaskState | None) -> SubtaskState | None:
        if state is None or not isinstance(state.managed_keyed, KeyGroupsHandle):
            return state
        base = state.managed_keyed
        groups = (base.first_key_group, len(base.offsets))
        handle = ChangelogHandle(14, *groups, 0, (base,), delta, 0, 1, "00000000-0000-0000-0000-000000000000")
        return replace(state, managed_keyed=handle)

    return replace(
        operator, subtasks=tuple(replace(subtask, state=wrapped(subtask.state)) for subtask in operator.subtasks)
    )


def stream_counts_in_changelog(folder: Path, delta: tuple[ChangelogDelta, ...]) -> tuple[int, int]:
    """Return how many keyed streams can be read, and how many keyed states of other kinds there are."""
    shutil.copytree(snapshots.directory(HEAP_FIXTURE), folder)
    metadata = read_metadata((folder / "_metadata").read_bytes(), "")
    operators = tuple(in_changelog(operator, delta) for operator in metadata.operators)
    (folder / "_metadata").write_bytes(write_metadata(replace(metadata, operators=operators)))
    opened_operators = open_snapshot(str(folder)).operators
    return sum(len(operator.keyed) for operator in opened_operators), sum(
        len(operator.other_keyed) for operator in opened_operators
    )


def test_changelog_without_changes_is_opened_as_its_base(tmp_path: Path) -> None:
    stream_count = sum(len(operator.keyed) for operator in snapshots.opened(HEAP_FIXTURE).operators)
    assert stream_count > 0
    assert stream_counts_in_changelog(tmp_path / "none", ()) == (stream_count, 0)
    empty_delta = InMemoryChangelogHandle(0, 128, 0, 1, (), "00000000-0000-0000-0000-000000000001")
    assert stream_counts_in_changelog(tmp_path / "nothing", (empty_delta,)) == (stream_count, 0)


def group_extents(streams: Iterable[KeyedStream]) -> list[tuple[int, int, int]]:
    """Return (key group, start, length) of the key groups in these streams."""
    return [
        (key_group, extent.start, extent.length) for stream in streams for key_group, extent in stream.present_groups
    ]


@pytest.mark.parametrize(("first_group", "group_count"), [(0, 10), (0, 64), (40, 50), (64, 64), (100, 28)])
def test_base_of_a_changelog_is_limited_to_its_key_groups(first_group: int, group_count: int, tmp_path: Path) -> None:
    """For each stream of the base, the key groups may be some or all of those in the stream, or none."""

    def wrapped(operator: OperatorState) -> OperatorState:
        states = [subtask.state for subtask in operator.subtasks if subtask.state is not None]
        base = tuple(state.managed_keyed for state in states if isinstance(state.managed_keyed, KeyGroupsHandle))
        if not base:
            return operator
        handle = ChangelogHandle(
            14, first_group, group_count, 0, base, (), 0, 1, "00000000-0000-0000-0000-000000000000"
        )
        return replace(operator, subtasks=(Subtask(0, False, SubtaskState(managed_keyed=handle)),))

    shutil.copytree(snapshots.directory(HEAP_FIXTURE), tmp_path / "taken")
    metadata_path = tmp_path / "taken/_metadata"
    metadata = read_metadata(metadata_path.read_bytes(), "")
    metadata_path.write_bytes(write_metadata(replace(metadata, operators=tuple(map(wrapped, metadata.operators)))))
    base_extents = {
        operator.operator_id: group_extents(operator.keyed)
        for operator in snapshots.opened(HEAP_FIXTURE).operators
        if operator.keyed
    }
    opened = [operator for operator in open_snapshot(str(metadata_path)).operators if operator.changelogs]
    assert len(opened) == len(base_extents) > 0
    for operator in opened:
        parts = [part for part in operator.changelogs[0].base if isinstance(part, KeyedStream)]
        own_groups = range(first_group, first_group + group_count)
        assert len(parts) == 2
        assert group_extents(parts) == [
            metadata_path for metadata_path in base_extents[operator.operator_id] if metadata_path[0] in own_groups
        ]


@pytest.mark.parametrize("parallelism", [1, 2, 3, 4])
def test_key_groups_of_a_cut_handle_end_where_the_next_key_group_begins(parallelism: int, tmp_path: Path) -> None:
    """A changelog has such a base after a restore at another parallelism, before it is materialised again."""

    def cut_handle(handle: KeyGroupsHandle, own_groups: KeyGroupRange) -> KeyGroupsHandle:
        first = handle.first_key_group
        shared_groups = KeyGroupRange(first, first + len(handle.offsets) - 1).intersection(own_groups)
        offsets = handle.offsets[shared_groups.first - first : shared_groups.first - first + len(shared_groups)]
        return replace(handle, first_key_group=shared_groups.first, offsets=offsets)

    def rescaled(operator: OperatorState) -> OperatorState:
        states = [subtask.state for subtask in operator.subtasks if subtask.state is not None]
        base_handles = [state.managed_keyed for state in states if isinstance(state.managed_keyed, KeyGroupsHandle)]
        if not base_handles:
            return operator
        subtasks = []
        for i in range(parallelism):
            own_groups = key_group_range(operator.max_parallelism, parallelism, i)
            base = tuple(part for stream in base_handles if (part := cut_handle(stream, own_groups)).offsets)
            handle = ChangelogHandle(
                14, own_groups.first, len(own_groups), 0, base, (), 0, 1, "00000000-0000-0000-0000-000000000000"
            )
            subtasks.append(Subtask(i, False, SubtaskState(managed_keyed=handle)))
        return replace(operator, parallelism=parallelism, subtasks=tuple(subtasks))

    directory = relocated(HEAP_FIXTURE, tmp_path / "taken")
    edit_operators(directory, rescaled)
    extents_by_operator = {
        operator.operator_id: set(group_extents(operator.keyed))
        for operator in snapshots.opened(HEAP_FIXTURE).operators
        if operator.keyed
    }
    opened = {operator.operator_id: operator for operator in open_snapshot(str(directory)).operators}
    for operator_id, expected in extents_by_operator.items():
        operator = opened[operator_id]
        bases = (part for changelog in operator.changelogs for part in changelog.base)
        parts = [part for part in (*operator.keyed, *bases) if isinstance(part, KeyedStream)]
        assert set(group_extents(parts)) == expected
        assert len({part.header for part in parts}) == 1


def test_dropped_operator_may_have_a_handle_outside_the_snapshot(tmp_path: Path) -> None:
    """The other handles of the operator are readable, and their readers must cope with the missing one."""
    directory = relocated("2-clicks", tmp_path / "taken")
    lost_operator = next(
        operator for operator in open_snapshot(str(directory)).operators if operator.keyed and operator.element_streams
    )

    def with_handle_elsewhere(subtask: Subtask) -> Subtask:
        if subtask.state is None or subtask.state.managed_operator is None:
            return subtask
        handle = replace(subtask.state.managed_operator, stream=FileStream("file:/elsewhere/file", 5))
        return replace(subtask, state=replace(subtask.state, managed_operator=handle))

    def with_handles_elsewhere(entry: OperatorState) -> OperatorState:
        if entry.operator_id != lost_operator.operator_id:
            return entry
        return replace(entry, subtasks=tuple(map(with_handle_elsewhere, entry.subtasks)))

    edit_operators(directory, with_handles_elsewhere)
    with pytest.raises(SnapshotError, match="points outside"):
        open_snapshot(str(directory))
    operators = open_snapshot(str(directory), given_up=[lost_operator.operator_id]).operators
    assert [operator.operator_id for operator in operators if not operator.is_whole] == [lost_operator.operator_id]


@pytest.mark.parametrize("name", ["2-clicks", "2-heap-native", "2-rocksdb-native", "2-changelog-over-heap"])
def test_equal_headers_are_held_once(name: str) -> None:
    """A copy for each of thousands of subtasks would take some KB each, or more with a schema."""
    operators = open_snapshot(snapshots.directory(name)).operators
    streams = [
        stream
        for operator in operators
        for stream in (*operator.keyed, *operator.databases, *operator.element_streams, *operator.changelogs)
    ]
    headers = [stream.header for stream in streams]
    assert len({id(header) for header in headers}) == len(set(headers)) < len(headers)


def test_opening_sends_one_request_a_file(s3: S3Server, tmp_path: Path) -> None:
    """The request is for the header. A listing gives existence and versions of all files."""
    write_savepoint(tmp_path / "source", 100_000, value_size=100, parallelism=40)
    s3.create_bucket("opening")
    put_files(tmp_path / "source", "s3://opening/source")
    assert len(open_snapshot("s3://opening/source").files) == 41
    request_counts = requests_of(lambda: open_snapshot("s3://opening/source"))
    assert request_counts == {"ListObjectsV2": 1, "GetObject": 41, "HeadObject": 2}


def test_interrupt_cancels_queued_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of headers may be queued, and the store might not answer."""
    reads: list[int] = []
    cancelled = threading.Event()

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            cancelled.set()
            super().shutdown(wait)

    def read_slowly(*_: object, **__: object) -> None:
        reads.append(1)
        cancelled.wait()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rescale.snapshot.reading.opening._READS_AT_ONCE", 1)
    monkeypatch.setattr("rescale.snapshot.reading.opening.ThreadPoolExecutor", Pool)
    for method in ("keyed", "elements", "raw_keyed", "database", "other"):
        monkeypatch.setattr(f"rescale.snapshot.reading.opening.StreamReader.{method}", read_slowly)
    monkeypatch.setattr("rescale.snapshot.reading.opening._PendingOperator.operator", interrupt)
    with pytest.raises(KeyboardInterrupt):
        open_snapshot(snapshots.directory("2-clicks"))
    assert len(reads) <= 1
