"""Raw keyed timers whose keys are objects of a subclass: only the job's own classes can tell where a timer ends."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest

from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.key_groups import key_group_range
from rescale.flink.metadata.checkpoint_metadata import OperatorState, Subtask
from rescale.flink.metadata.handles import HandleTag, KeyGroupsHandle, RelativeFileStream
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import UnsupportedError
from support.canonical import Record
from support.diffing import diff
from support.edited import edit_operators
from support.heap_timers import Service, Timer, write_block
from support.pipeline import execute_without_spark, plan_rescale
from support.snapshot_bytes import STRING, VOID_NAMESPACE, keyed_header, keyed_state, pojo, utf
from support.written import write_savepoint

MAX_PARALLELISM = 8
KEY_TYPE = pojo({"name": STRING}, subclasses={"com.example.Express": None})
KEY = b"\x02\0\4abc"
KEY_OF_SUBCLASS = b"\x04" + utf("com.example.Express") + b"\0\4abc"

PLAIN, HIDDEN, EMPTY = (
    write_block(Service("alarms", KEY_TYPE, VOID_NAMESPACE, events))
    for events in ([Timer(1, KEY, b"\0")], [Timer(1, KEY_OF_SUBCLASS, b"\0")], [])
)


def write_snapshot(directory: Path, blocks: list[bytes], parallelism: int, *, in_rocksdb: bool) -> Path:
    """Write a snapshot with state and raw keyed timers, whose key groups have the bytes of `blocks`."""
    state = {group: [Record(0, KEY + b"\0", bytes(8))] for group in range(MAX_PARALLELISM)}
    header = keyed_header(keyed_state("total"), key=KEY_TYPE)
    source, canonical = directory / "source", directory / "canonical"
    write_savepoint(
        canonical if in_rocksdb else source, header, state, parallelism, MAX_PARALLELISM, HandleTag.KEY_GROUPS
    )
    if in_rocksdb:
        execute_without_spark(plan_rescale(str(canonical), str(source), format="rocksdb"))

    def with_timers(subtask: Subtask) -> Subtask:
        own = key_group_range(MAX_PARALLELISM, parallelism, subtask.index)
        own_blocks = blocks[own.first : own.last + 1]
        path = source / f"timers-{subtask.index}"
        path.write_bytes(b"".join(own_blocks))
        offsets = tuple(accumulate(map(len, own_blocks), initial=0))[:-1]
        stream = RelativeFileStream(path.name, path.stat().st_size)
        assert subtask.state is not None
        timers = KeyGroupsHandle(HandleTag.KEY_GROUPS, own.first, offsets, stream)
        return replace(subtask, state=replace(subtask.state, raw_keyed=timers))

    def with_timers_in_subtasks(entry: OperatorState) -> OperatorState:
        return replace(entry, subtasks=tuple(map(with_timers, entry.subtasks)))

    edit_operators(source, with_timers_in_subtasks)
    return source


@pytest.mark.parametrize("in_rocksdb", [True, False], ids=["rocksdb", "canonical"])
@pytest.mark.parametrize("parallelisms", [(1, 2), (2, 1), (2, 4)])
@pytest.mark.parametrize(
    "blocks",
    [[PLAIN] * 4 + [HIDDEN] * 4, [HIDDEN] * 7 + [PLAIN], [EMPTY, HIDDEN] * 4, [HIDDEN] * 8],
    ids=["half", "but one", "between empty ones", "all"],
)
def test_timers_keep_their_bytes_at_another_parallelism(
    blocks: list[bytes], parallelisms: tuple[int, int], in_rocksdb: bool, tmp_path: Path
) -> None:
    """Neither the run, nor its validation or a diff, needs to know where a timer ends."""
    old_parallelism, new_parallelism = parallelisms
    snapshot, target = (
        str(write_snapshot(tmp_path, blocks, old_parallelism, in_rocksdb=in_rocksdb)),
        str(tmp_path / "target"),
    )
    execute_without_spark(plan_rescale(snapshot, target, [str(new_parallelism)]))
    assert validate_published(snapshot, target, InProcessTasks()).verdict == "complete"
    result = open_snapshot(target)
    (operator,) = result.operators
    block_by_group = {
        group: result.contents.read(extent) for stream in operator.raw_keyed for group, extent in stream.present_groups
    }
    assert [block_by_group[group] for group in range(MAX_PARALLELISM)] == blocks
    if any(stream.has_hidden_timers for stream in operator.raw_keyed):
        assert diff(open_snapshot(snapshot), result).equal


@pytest.mark.parametrize("shape", [{"format": "canonical"}, {"max_parallelism": ["4"]}])
def test_hidden_timers_are_refused_where_they_would_be_read(shape: dict[str, str | list[str]], tmp_path: Path) -> None:
    snapshot = write_snapshot(tmp_path, [PLAIN] * 4 + [HIDDEN] * 4, 2, in_rocksdb=True)
    with pytest.raises(UnsupportedError, match="objects of a subclass of their POJO") as caught:
        plan_rescale(str(snapshot), str(tmp_path / "target"), **shape)  # type: ignore[arg-type]
    assert caught.value.found == "such timers in subtask 1"


def test_timer_that_planning_does_not_see_ends_the_run_as_unsupported(tmp_path: Path) -> None:
    snapshot = write_snapshot(tmp_path, [EMPTY, HIDDEN] * 4, 2, in_rocksdb=True)
    plan = plan_rescale(str(snapshot), str(tmp_path / "target"), format="canonical")
    with pytest.raises(UnsupportedError, match="one in key group 1 contains an object of a subclass"):
        execute_without_spark(plan)
