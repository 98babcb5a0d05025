"""RocksDB directories, copied and made canonical: whenever a run is stopped, the same command goes on.

The files are segments of larger ones, so that those who read rows have to fetch them; nothing of that stays.
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
from support.resuming import KILLED, Case, assert_right, assert_right_or_not_there, is_there, real_run
from support.slow import Share, in_shares

SHAPES = {
    "copy": (),
    "rehash": ("--format", "canonical", "--parallelism", "2", "--max-parallelism", "40"),
    "rows": ("--max-parallelism", "40"),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One operator with one database."""
    directory = relocated("2-file-merging", tmp_path_factory.mktemp("source"))

    def first_only(subtask: Subtask) -> Subtask:
        return subtask if subtask.index == 0 else replace(subtask, state=SubtaskState())

    def with_keyed_state(entry: OperatorState) -> bool:
        return any(subtask.state is not None and subtask.state.managed_keyed for subtask in entry.subtasks)

    edit(
        directory,
        lambda metadata: replace(
            metadata,
            operators=tuple(
                replace(entry, subtasks=tuple(map(first_only, entry.subtasks)))
                for entry in metadata.operators
                if with_keyed_state(entry)
            ),
        ),
    )
    return directory


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where databases are fetched to."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(folder))
    return folder


@pytest.fixture(params=SHAPES)
def case(request: pytest.FixtureRequest, source: Path, scratch: Path, tmp_path: Path) -> Case:  # noqa: ARG001
    work = tmp_path / "work"
    work.mkdir()
    return Case(str(tmp_path / "home"), work, 30_000, SHAPES[request.param], str(source))


def numbers(case: Case) -> list[int]:
    """Return the numbers of the calls after the plan that write or read state: between the others nothing changes."""
    counted, target = case.faults(writes_only=False), case.target()
    assert case.run(target, counted, parallelism="") == 0, warm.output(counted)
    assert_right(target, case.source)
    verbs = [line.split()[0] for line in counted.calls()]
    return [k for k, verb in enumerate(verbs, 1) if verb in (*WRITES, "read") and k >= verbs.index("put") + 1]


@in_shares
def test_killed_before_any_call_it_is_resumed(case: Case, scratch: Path, share: Share[int]) -> None:
    before = {path: path.stat().st_mtime_ns for path in Path(case.source).parent.rglob("*")}
    for k in share(numbers(case)):
        target, again = case.target(), case.faults()
        killed = case.faults(Kind.KILL, k, writes_only=False)
        assert case.run(target, killed, parallelism="") == KILLED, f"at call {k}"
        assert_right_or_not_there(target, case.source)
        assert case.run(target, again, parallelism="") == 0, f"at call {k}: {warm.output(again)}"
        assert_right(target, case.source)
    assert case.run(case.target(), case.faults(), parallelism="") == 0
    assert list(scratch.iterdir()) == []
    assert {path: path.stat().st_mtime_ns for path in Path(case.source).parent.rglob("*")} == before


def test_all_of_a_killed_run_is_discarded(case: Case) -> None:
    """How many files RocksDB's directories will have, the plan does not say."""
    target, discarded = case.target(), case.faults()
    assert case.run(target, case.faults(Kind.KILL, where="handles-keyed.json"), parallelism="") == KILLED
    assert open_store(target).list(target)
    assert case.discard(target, discarded) == 0, warm.output(discarded)
    assert open_store(target).list(target) == []


@pytest.mark.slow
def test_real_processes_killed_while_rows_are_read_are_resumed(source: Path, scratch: Path, tmp_path: Path) -> None:
    """All of a rehash at once, then a validation before it ends, then one worker of the next one."""
    target = str(tmp_path / "target")
    command = ["run", str(source), "--target", target, *SHAPES["rehash"]]
    behind_the_plan = 2
    stages = [
        (Kind.KILL, fetched_segment(source), behind_the_plan, 1),
        (Kind.KILL, "certificate.json", 1, 1),
        (Kind.KILL_GROUP, fetched_segment(source), behind_the_plan, 0),
    ]
    for i, (kind, where, at, code) in enumerate(stages):
        assert real_run(command, Faults(str(tmp_path / f"log-{i}"), kind, at, where), tmp_path) == code
        assert is_there(target) == (code == 0)
        if i == 0:
            assert list(scratch.glob("*/blockmgr-*/*database*"))
    assert_right(target, str(source))
    assert list(scratch.iterdir()) == []


def fetched_segment(source: Path) -> str:
    """How a line of the log goes on that says of a small table, not the first segment of its file, that it is read."""
    (database,) = [database for operator in open_snapshot(str(source)).operators for database in operator.databases]
    extent = next(file.extent for file in database.files if file.extent.start and file.name.endswith(".sst"))
    return f"{open_snapshot(str(source)).files[extent.file][0]} {extent.start} {extent.length}"
