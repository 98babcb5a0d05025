"""Raw keyed timers without a RocksDB directory: old full checkpoints, and operators with timers and no keyed state."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest

from rescale.execution.sources.record_sources import SourceReader, sources_of
from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.key_groups import key_group_of_hash, key_group_range
from rescale.flink.metadata.checkpoint_metadata import OperatorState, Subtask, SubtaskState
from rescale.flink.metadata.handles import HandleTag, KeyGroupsHandle, RelativeFileStream
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import UnsupportedError
from support.canonical import Record, read_group
from support.composite import timer
from support.edited import edit_operators
from support.heap_timers import Service, Timer, write_block
from support.java_values import HASHABLE_LEAVES
from support.pipeline import execute_without_spark, plan_rescale
from support.rekeyed import contents
from support.snapshot_bytes import LONG, STRING, VOID_NAMESPACE, keyed_header, keyed_state
from support.written import write_savepoint

MAX_PARALLELISM, PARALLELISM = 40, 2
TEXT = HASHABLE_LEAVES["String"]
NAMES = [tuple(f"user {number}".encode()) for number in range(60)]
EVENT, PROCESSING, LATE = "_timer_state/event_early", "_timer_state/processing_early", "_timer_state/event_late"

RecordCounts = Counter[tuple[int, str, bytes, bytes]]
"""Key group, state, key and value of records."""


def group_of(name: tuple[int, ...], max_parallelism: int) -> int:
    return key_group_of_hash(TEXT.code(name), max_parallelism)


def expected_counts(max_parallelism: int, *, has_states: bool) -> RecordCounts:
    counts: RecordCounts = Counter()
    for number, name in enumerate(NAMES):
        group, key = group_of(name, max_parallelism), TEXT.write(name)
        if has_states:
            counts[group, "total", key + b"\0", bytes(8)] += 1
        counts[group, EVENT, timer(number, key, b"\0"), b""] += 1
        counts[group, PROCESSING, timer(-number, key, b"\0"), b""] += 1
        if group_of(name, MAX_PARALLELISM) >= MAX_PARALLELISM // 2:
            counts[group, LATE, timer(number, key, b"12345678"), b""] += 1
    return counts


def record_counts(target: str) -> RecordCounts:
    snapshot = open_snapshot(target)
    (operator,) = snapshot.operators
    counts: RecordCounts = Counter()
    for stream in operator.keyed:
        assert stream.parsed is not None
        for group, data in contents(snapshot, stream):
            for key_group, record in read_group(data, operator.max_parallelism):
                assert key_group == group
                counts[group, stream.parsed.states[record.state].name, record.key, record.value] += 1
    reader = SourceReader(snapshot.contents)
    for stream in operator.heap_timers:
        for source in sources_of(stream, operator.max_parallelism):
            names, _ = source.states
            for batch in reader.batches(source):
                for start, limit, state, key_group in zip(
                    batch.key_starts, batch.key_ends, batch.state_ids, batch.groups, strict=True
                ):
                    counts[int(key_group), names[state], batch.data[start:limit].tobytes(), b""] += 1
    return counts


def block(subtask: int, key_group: int) -> bytes:
    """Return the timers of a key group. Only the second subtask has the service `late`, and writes it first."""
    timers = [
        (number, TEXT.write(name)) for number, name in enumerate(NAMES) if group_of(name, MAX_PARALLELISM) == key_group
    ]
    events = [Timer(number, key, b"\0") for number, key in timers]
    processing = [Timer(-number, key, b"\0") for number, key in timers]
    early = Service("early", STRING, VOID_NAMESPACE, events, processing)
    late = Service("late", STRING, LONG, [Timer(number, key, b"12345678") for number, key in timers])
    return write_block(*([late, early] if subtask else [early]))


@pytest.fixture(params=[True, False], ids=["states", "no states"])
def has_states(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def source(has_states: bool, tmp_path: Path) -> Path:
    """Return a full checkpoint of RocksDB as Flink wrote them before 1.16."""
    groups: dict[int, list[Record]] = {}
    for name in NAMES:
        groups.setdefault(group_of(name, MAX_PARALLELISM), []).append(Record(0, TEXT.write(name) + b"\0", bytes(8)))
    header = keyed_header(keyed_state("total"))
    directory = tmp_path / "source"
    write_savepoint(directory, header, groups, PARALLELISM, MAX_PARALLELISM, HandleTag.KEY_GROUPS)

    def with_timers(subtask: Subtask) -> Subtask:
        own = key_group_range(MAX_PARALLELISM, PARALLELISM, subtask.index)
        blocks = [block(subtask.index, key_group) for key_group in range(own.first, own.last + 1)]
        path = directory / f"timers-{subtask.index}"
        path.write_bytes(b"".join(blocks))
        offsets = tuple(accumulate(map(len, blocks), initial=0))[:-1]
        stream = RelativeFileStream(path.name, path.stat().st_size)
        timers = KeyGroupsHandle(HandleTag.KEY_GROUPS, own.first, offsets, stream)
        keyed = subtask.state.managed_keyed if has_states and subtask.state else None
        return replace(subtask, state=SubtaskState(managed_keyed=keyed, raw_keyed=timers))

    def with_timers_in_subtasks(entry: OperatorState) -> OperatorState:
        return replace(entry, subtasks=tuple(map(with_timers, entry.subtasks)))

    edit_operators(directory, with_timers_in_subtasks)
    return directory


@pytest.mark.parametrize(
    ("parallelism", "max_parallelism", "result_format"),
    [(3, 40, "canonical"), (2, 20, "keep"), (5, 200, "keep"), (2, 200, "canonical"), (3, 300, "keep")],
)
def test_every_timer_is_in_the_result(
    parallelism: int, max_parallelism: int, result_format: str, has_states: bool, source: Path, tmp_path: Path
) -> None:
    """Timers become states of keyed state. They stay raw if there is no keyed state and the format is kept."""
    target = str(tmp_path / "target")
    plan = plan_rescale(
        str(source), target, [str(parallelism)], max_parallelism=[str(max_parallelism)], format=result_format
    )
    execute_without_spark(plan)
    assert record_counts(target) == expected_counts(max_parallelism, has_states=has_states)
    (operator,) = open_snapshot(target).operators
    stay_raw = result_format == "keep" and not has_states
    assert [stream.subtask for stream in operator.raw_timers] == (list(range(parallelism)) if stay_raw else [])
    assert bool(operator.keyed) is not stay_raw
    assert validate_published(str(source), target, InProcessTasks()).verdict == "complete"


def test_raw_timers_stay_unchanged_if_key_groups_move_whole(source: Path, tmp_path: Path) -> None:
    """Subtasks with different services then share a stream, which cannot be rescaled to another max parallelism."""
    plan = plan_rescale(str(source), str(tmp_path / "moved"), ["3"])
    execute_without_spark(plan)
    moved_snapshot = open_snapshot(str(tmp_path / "moved"))
    (operator,) = moved_snapshot.operators
    content_by_group = {
        group: data for stream in operator.raw_keyed for group, data in contents(moved_snapshot, stream)
    }
    assert content_by_group == {
        group: block(group // (MAX_PARALLELISM // 2), group) for group in range(MAX_PARALLELISM)
    }
    second_plan = plan_rescale(str(tmp_path / "moved"), str(tmp_path / "target"), ["2"], max_parallelism=["200"])
    with pytest.raises(UnsupportedError, match="a timer service that other key groups of its stream do not have"):
        execute_without_spark(second_plan)
