"""Any damage to a snapshot ends a run in an error that names it, or is copied faithfully."""

from __future__ import annotations

import shutil
import tracemalloc
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from fuzzing.limits import limited_time
from rescale.flink.metadata.checkpoint_metadata import Metadata, OperatorState, Subtask
from rescale.flink.metadata.handles import FileStream, KeyGroupsHandle, RelativeFileStream, Stream
from rescale.flink.metadata.reader import read_metadata
from rescale.flink.metadata.writer import write_metadata
from rescale.plan.plan import Plan
from rescale.runstate.places import places_of
from rescale.text.errors import RescaleError, SnapshotError
from support import snapshots
from support.pipeline import execute_without_spark, plan_rescale
from support.slow import Share, in_shares, slow

WITH_FILES = ["1.20-raw", "2-heap-native-compressed", "2-lazy"]
SNAPSHOTS = [WITH_FILES[0], *map(slow, WITH_FILES[1:]), "2-inline"]
MEMORY_LIMIT_BYTES = 256 * 1024 * 1024
PLANNING_SECONDS = 60
T = TypeVar("T")


@pytest.fixture(params=SNAPSHOTS)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return shutil.copytree(snapshots.directory(request.param), tmp_path / "source")


@contextmanager
def limited_memory() -> Iterator[None]:
    """Check that the block takes less than 256 MiB. A call of `plan_or_error` in it may take a minute of CPU time."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEMORY_LIMIT_BYTES


def plan_or_error(source: Path) -> Plan | RescaleError:
    """Return the plan, or the Rescale error that planning raises. Any other error, and a hang, fail the test."""
    target = source.parent / uuid.uuid4().hex
    with limited_time(PLANNING_SECONDS):
        outcome = result_or_error(lambda: plan_rescale(str(source), str(target), ["3"]))
    assert not isinstance(outcome, RescaleError) or outcome.exit_code in (2, 3)
    assert not list(source.parent.glob(f"{target.name}*")), "planning wrote something"
    return outcome


def result_or_error(call: Callable[[], T]) -> T | RescaleError:
    """Return the result of the call, or the `RescaleError` that it raises."""
    try:
        return call()
    except RescaleError as error:
        return error


def assert_faithful_or_refused(plan: Plan) -> None:
    """Check that the run passes validation against the damaged source, or publishes nothing."""
    outcome = result_or_error(lambda: execute_without_spark(plan))
    if isinstance(outcome, RescaleError):
        assert outcome.exit_code in (3, 4)
        assert not Path(places_of(plan).metadata).exists()


@in_shares
def test_metadata_cut_at_any_byte_raises_snapshot_error_with_offset(source: Path, share: Share[int]) -> None:
    metadata = source / "_metadata"
    data = metadata.read_bytes()
    for size in share(range(len(data))):
        metadata.write_bytes(data[:size])
        error = plan_or_error(source)
        assert isinstance(error, SnapshotError)
        assert error.path == str(metadata)
        assert error.offset is not None
        assert 0 <= error.offset <= size


@in_shares
@pytest.mark.parametrize("length", [0x7FFFFFFF, -1, 1 << 24])
def test_wrong_length_at_any_place_is_refused_or_copied(source: Path, length: int, share: Share[int]) -> None:
    length_bytes = length.to_bytes(4, "big", signed=True)
    with limited_memory():
        plan_makers = damage_everywhere(
            source, lambda data, at: data[:at] + length_bytes + data[at + 4 :], share, step=17
        )
    for make_plan in plan_makers[::25]:
        assert_faithful_or_refused(make_plan())


@in_shares
def test_flipped_bit_at_any_place_is_refused_or_copied(source: Path, share: Share[int]) -> None:
    def flip(data: bytes, at: int) -> bytes:
        return data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]

    plan_makers = damage_everywhere(source, flip, share, step=5)
    assert plan_makers, "no damage was copied, though names can be anything"
    for make_plan in plan_makers[::25]:
        assert_faithful_or_refused(make_plan())


def damage_everywhere(
    source: Path, change: Callable[[bytes, int], bytes], share: Share[int], step: int
) -> list[Callable[[], Plan]]:
    """Damage `_metadata` at each place; return functions that plan the damaged snapshots which can be planned."""
    metadata = source / "_metadata"
    data = metadata.read_bytes()
    plan_makers = []

    def plan_again(damaged: bytes) -> Plan:
        metadata.write_bytes(damaged)
        plan = plan_or_error(source)
        assert isinstance(plan, Plan)
        return plan

    for position in share(range(0, len(data) - 4, step)):
        damaged = change(data, position)
        metadata.write_bytes(damaged)
        if isinstance(plan_or_error(source), Plan):
            assert write_metadata(read_metadata(damaged, "")) == damaged, f"at {position}: something is dropped"
            plan_makers.append(lambda damaged=damaged: plan_again(damaged))
    return plan_makers


@pytest.mark.parametrize(
    "stream",
    [
        RelativeFileStream("../elsewhere", 3),
        RelativeFileStream("sub/../../elsewhere", 3),
        RelativeFileStream("/../elsewhere", 3),
        FileStream("/etc/hostname", 3),
        FileStream("file:///etc/hostname", 3),
        FileStream("s3://bucket/key", 3),
        FileStream("hdfs://host/key", 3),
        FileStream("", 3),
        FileStream("\0", 3),
        RelativeFileStream("", 3),
        RelativeFileStream(".", 3),
        RelativeFileStream("_metadata/x", 3),
        RelativeFileStream("x" * 300, 3),
        RelativeFileStream("\0", 3),
        RelativeFileStream("\ud800", 3),
    ],
    ids=str,
)
def test_handle_that_points_outside_the_snapshot_is_refused(stream: Stream, tmp_path: Path) -> None:
    source = shutil.copytree(snapshots.directory("2-windows"), tmp_path / "source")
    (tmp_path / "elsewhere").write_bytes(b"abc")

    def with_stream(subtask: Subtask) -> Subtask:
        if subtask.state is None or not isinstance(subtask.state.managed_keyed, KeyGroupsHandle):
            return subtask
        handle = replace(subtask.state.managed_keyed, stream=stream)
        return replace(subtask, state=replace(subtask.state, managed_keyed=handle))

    def with_stream_in_subtasks(entry: OperatorState) -> OperatorState:
        return replace(entry, subtasks=tuple(map(with_stream, entry.subtasks)))

    metadata: Metadata = read_metadata((source / "_metadata").read_bytes(), "")
    damaged_metadata = replace(metadata, operators=tuple(map(with_stream_in_subtasks, metadata.operators)))
    (source / "_metadata").write_bytes(write_metadata(damaged_metadata))
    error = plan_or_error(source)
    assert isinstance(error, RescaleError)
    assert error.exit_code == 3


@pytest.fixture(params=WITH_FILES)
def source_in_files(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a copy of a snapshot whose state lies in files."""
    return shutil.copytree(snapshots.directory(request.param), tmp_path / "source")


def state_files(snapshot: Path) -> list[Path]:
    return sorted(path for path in snapshot.iterdir() if path.name != "_metadata")


def test_cut_state_file_raises_snapshot_error(source_in_files: Path) -> None:
    for file in state_files(source_in_files):
        data = file.read_bytes()
        for size in {0, 1, len(data) // 2, len(data) - 1}:
            file.write_bytes(data[:size])
            error = plan_or_error(source_in_files)
            assert isinstance(error, SnapshotError)
            assert error.path == str(file)
        file.write_bytes(data)


def test_prolonged_state_file_raises_snapshot_error(source_in_files: Path) -> None:
    for file in state_files(source_in_files):
        data = file.read_bytes()
        file.write_bytes(data + b"\0")
        assert isinstance(plan_or_error(source_in_files), SnapshotError)
        file.write_bytes(data)


def test_missing_state_file_raises_snapshot_error(source_in_files: Path) -> None:
    for file in state_files(source_in_files):
        moved_file = file.rename(source_in_files.parent / file.name)
        assert isinstance(plan_or_error(source_in_files), SnapshotError)
        moved_file.rename(file)


@in_shares
def test_flipped_bit_in_a_state_file_is_copied_or_refused(source_in_files: Path, share: Share[int]) -> None:
    for file in state_files(source_in_files):
        data = file.read_bytes()
        for position in share(range(7, len(data), len(data) // 12)):
            file.write_bytes(data[:position] + bytes([data[position] ^ 1 << position % 8]) + data[position + 1 :])
            plan = plan_or_error(source_in_files)
            if isinstance(plan, Plan):
                assert_faithful_or_refused(plan)
        file.write_bytes(data)


@pytest.mark.parametrize("name", ["2-canonical-rocksdb", "2-heap-native"])
def test_flipped_bit_in_a_copied_key_group_is_copied(name: str, tmp_path: Path) -> None:
    source = shutil.copytree(snapshots.directory(name), tmp_path / "source")
    largest_stream = max((s for o in snapshots.opened(name).operators for s in o.keyed), key=lambda s: s.extent.length)
    file = source / Path(snapshots.opened(name).files[largest_stream.extent.file][0]).name
    group = max(filter(None, largest_stream.groups), key=lambda extent: extent.length)
    data = bytearray(file.read_bytes())
    data[group.start + group.length // 2] ^= 0x10
    file.write_bytes(data)
    plan = plan_or_error(source)
    assert isinstance(plan, Plan)
    execute_without_spark(plan)
    damaged_group = bytes(data[group.start : group.start + group.length])
    assert any(damaged_group in path.read_bytes() for path in Path(plan.target).iterdir())
