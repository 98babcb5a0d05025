"""Runs that copy RocksDB directories or make them canonical are resumed by the same command, whenever they are stopped.

The files are segments of larger ones, so tasks must fetch them to read rows; no fetched file stays.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rescale.flink.metadata.checkpoint_metadata import OperatorState, Subtask, SubtaskState
from rescale.snapshot.reading.opening import open_snapshot
from rescale.storage.store import open_store
from support import warm
from support.edited import edit, relocated
from support.faults import WRITES, Faults, Kind
from support.resuming import KILLED, Case, assert_right, assert_right_or_unpublished, is_published, real_run
from support.slow import Share, in_shares

SHAPES = {
    "copy": (),
    "rehash": ("--format", "canonical", "--parallelism", "2", "--max-parallelism", "40"),
    "rows": ("--max-parallelism", "40"),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a snapshot of one operator with one RocksDB directory."""
    directory = relocated("2-file-merging", tmp_path_factory.mktemp("source"))

    def first_only(subtask: Subtask) -> Subtask:
        return subtask if subtask.index == 0 else replace(subtask, state=SubtaskState())

    def has_keyed_state(entry: OperatorState) -> bool:
        return any(subtask.state is not None and subtask.state.managed_keyed for subtask in entry.subtasks)

    edit(
        directory,
        lambda metadata: replace(
            metadata,
            operators=tuple(
                replace(entry, subtasks=tuple(map(first_only, entry.subtasks)))
                for entry in metadata.operators
                if has_keyed_state(entry)
            ),
        ),
    )
    return directory


@pytest.fixture(params=SHAPES)
def case(request: pytest.FixtureRequest, source: Path, scratch: Path, tmp_path: Path) -> Case:  # noqa: ARG001
    folder = tmp_path / "work"
    folder.mkdir()
    return Case(str(tmp_path / "home"), folder, 30_000, SHAPES[request.param], str(source))


def call_numbers(case: Case) -> list[int]:
    """Return the numbers of the storage calls after the plan that write or read; the other calls change nothing."""
    counting_faults, target = case.faults(writes_only=False), case.target()
    assert case.run(target, counting_faults, parallelism="") == 0, warm.output(counting_faults)
    assert_right(target, case.source)
    verbs = [line.split()[0] for line in counting_faults.calls()]
    return [k for k, verb in enumerate(verbs, 1) if verb in (*WRITES, "read") and k >= verbs.index("put") + 1]


@in_shares
def test_run_killed_before_any_call_is_resumed(case: Case, scratch: Path, share: Share[int]) -> None:
    mtime_by_path = {path: path.stat().st_mtime_ns for path in Path(case.source).parent.rglob("*")}
    for k in share(call_numbers(case)):
        target, resume_faults = case.target(), case.faults()
        kill_faults = case.faults(Kind.KILL, k, writes_only=False)
        assert case.run(target, kill_faults, parallelism="") == KILLED, f"at call {k}"
        assert_right_or_unpublished(target, case.source)
        assert case.run(target, resume_faults, parallelism="") == 0, f"at call {k}: {warm.output(resume_faults)}"
        assert_right(target, case.source)
    assert case.run(case.target(), case.faults(), parallelism="") == 0
    assert list(scratch.iterdir()) == []
    assert {path: path.stat().st_mtime_ns for path in Path(case.source).parent.rglob("*")} == mtime_by_path


def test_killed_run_is_discarded_completely(case: Case) -> None:
    """The plan does not know how many files RocksDB will write."""
    target, discard_faults = case.target(), case.faults()
    assert case.run(target, case.faults(Kind.KILL, where="handles-keyed.json"), parallelism="") == KILLED
    assert open_store(target).list(target)
    assert case.discard(target, discard_faults) == 0, warm.output(discard_faults)
    assert open_store(target).list(target) == []


@pytest.mark.slow
def test_processes_killed_while_rows_are_read_are_resumed(source: Path, scratch: Path, tmp_path: Path) -> None:
    """A whole rehash is killed, then a validation before its end, then one worker of the next run."""
    target = str(tmp_path / "target")
    command = ["run", str(source), "--target", target, *SHAPES["rehash"]]
    first_read_of_run = 3  # planning reads each table twice
    stages = [
        (Kind.KILL, fetched_segment(source), first_read_of_run, 1),
        (Kind.KILL, "certificate.json", 1, 1),
        (Kind.KILL_WORKER, fetched_segment(source), first_read_of_run, 0),
    ]
    for i, (kind, where, occurrence, exit_code) in enumerate(stages):
        assert real_run(command, Faults(str(tmp_path / f"log-{i}"), kind, occurrence, where), tmp_path) == exit_code
        assert is_published(target) == (exit_code == 0)
        if i == 0:
            assert list(scratch.glob("rescale-tasks-*/*database*"))
    assert_right(target, str(source))
    assert list(scratch.iterdir()) == []


def fetched_segment(source: Path) -> str:
    """Return the end of the log line for the read of a small table that is not the first segment of its file."""
    (database,) = [database for operator in open_snapshot(str(source)).operators for database in operator.databases]
    extent = next(file.extent for file in database.files if file.extent.start and file.name.endswith(".sst"))
    return f"{open_snapshot(str(source)).files[extent.file][0]} {extent.start} {extent.length}"
