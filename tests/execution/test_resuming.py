"""Whenever a run is stopped, its target is published and right, or not published; the same command resumes it.

A run without Spark makes the same storage calls in the same order as a run with Spark, except that tasks take turns.
Therefore the tests stop a run without Spark at every call. Slow tests also kill real processes, once in each step.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rescale.storage.locations import join
from rescale.storage.store import open_store
from support import snapshots, warm
from support.faults import Faults, Kind
from support.resuming import (
    KILLED,
    SNAPSHOT,
    Case,
    assert_right,
    assert_right_or_unpublished,
    case_on,
    is_published,
    real_run,
)
from support.s3 import unprotected_store
from support.slow import Share, in_shares, slow

locally_and_on_s3 = pytest.mark.parametrize("case", ["local", "s3"], indirect=True)
"""Decorator of a test that always runs both locally and on S3; other tests run on S3 only as slow tests."""


@pytest.fixture(params=["local", slow("s3")])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    return case_on(request.param, request, tmp_path)


@pytest.fixture(autouse=True)
def _source_untouched() -> Iterator[None]:
    def state_of_source() -> dict[str, tuple[bytes, int]]:
        files = Path(snapshots.directory(SNAPSHOT)).iterdir()
        return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}

    state_before = state_of_source()
    yield
    assert state_of_source() == state_before


@pytest.mark.parametrize("case", [slow("local"), "s3"], indirect=True)
@in_shares
def test_run_killed_before_any_write_is_resumed(case: Case, share: Share[int]) -> None:
    for k in share(range(1, case.calls() + 1)):
        target = case.target()
        assert case.run(target, case.faults(Kind.KILL, k)) == KILLED, f"at write {k}"
        assert not is_published(target), f"at write {k}: `_metadata` was not the last write"
        case.succeed(target, f"at write {k}")
        assert_right(target)


@in_shares
def test_run_killed_before_any_call_is_resumed(tmp_path: Path, share: Share[int]) -> None:
    """This includes reads. Local files are enough, because reads leave nothing behind."""
    case = Case(str(tmp_path / "home"), tmp_path, part_size=1000)
    counting_faults = case.faults(writes_only=False)
    assert case.run(case.target(), counting_faults) == 0
    for k in share(range(1, len(counting_faults.calls()) + 1)):
        target = case.target()
        assert case.run(target, case.faults(Kind.KILL, k, writes_only=False)) == KILLED, f"at call {k}"
        assert_right_or_unpublished(target)
        case.succeed(target, f"at call {k}")
        assert_right(target)


@in_shares
@pytest.mark.parametrize("kind", [Kind.ERROR, Kind.LOST_ANSWER])
def test_transient_error_at_any_write_ends_with_exit_code_1_and_is_resumed(
    case: Case, kind: Kind, share: Share[tuple[int, str]]
) -> None:
    """Only a report may be missing: the run ends with exit code 0 without it."""
    for k, line in share(list(enumerate(case.writes(), 1))):
        target, faults = case.target(), case.faults(kind, k)
        is_report = ".rescale/report." in line
        assert case.run(target, faults) == (0 if is_report else 1), f"at write {k}: {warm.output(faults)}"
        assert ("the report could not be written" in warm.output(faults)) == is_report
        assert_right_or_unpublished(target)
        case.succeed(target, f"at write {k}")
        assert_right(target)


def test_resumed_run_writes_only_missing_files(case: Case) -> None:
    """The run is killed before the last file of state."""
    first_target, target = case.target(), case.target()
    first_run = case.succeed(first_target)
    state_writes = [line for line in first_run.calls() if is_write_of_state(line)]
    assert len(state_writes) > 2
    verb = state_writes[-1].split()[0]
    occurrence = [line for line in first_run.calls() if f"{verb} {first_target}/" in line].index(state_writes[-1]) + 1
    assert case.run(target, case.faults(Kind.KILL, occurrence, where=f"{verb} {target}/")) == KILLED
    second_run = case.succeed(target)
    assert len([line for line in second_run.calls() if is_write_of_state(line)]) == 1
    assert_right(target)


def is_write_of_state(line: str) -> bool:
    return line.startswith(("put ", "copy ", "complete_parts ")) and "-keyed-" in line


def test_published_result_is_left_alone(case: Case) -> None:
    target = case.target()
    case.succeed(target)
    metadata_pin = open_store(target).stat(join(target, "_metadata"))
    second_run = case.succeed(target)
    assert open_store(target).stat(join(target, "_metadata")) == metadata_pin
    assert [line for line in second_run.calls() if not line.startswith("put_if_absent")] == []


def test_second_plan_is_refused_while_the_target_belongs_to_the_first(case: Case) -> None:
    """The second plan is refused before it writes data, wherever the first run was stopped."""
    writes = case.writes()
    claim_write = next(k for k, line in enumerate(writes, 1) if line.endswith("/claim"))
    for k in (claim_write + 1, len(writes) - 1):
        target = case.target()
        assert case.run(target, case.faults(Kind.KILL, k)) == KILLED
        entries_before = open_store(target).list(target)
        second_faults = case.faults()
        assert case.run(target, second_faults, parallelism="2") == 2, warm.output(second_faults)
        assert f"rescale discard {target}" in warm.output(second_faults)
        assert open_store(target).list(target) == entries_before
        case.succeed(target)
        assert_right(target)


@pytest.mark.parametrize("repeat_count", [2, slow(8)])
def test_one_of_two_plans_at_once_wins_the_target(case: Case, repeat_count: int) -> None:
    for _ in range(repeat_count):
        target = case.target()
        faults = [case.faults(), case.faults()]
        with ThreadPoolExecutor(2) as pool:
            runs = [
                pool.submit(case.run, target, fault, parallelism=parallelism)
                for parallelism, fault in zip("23", faults, strict=True)
            ]
        assert sorted(run.result() for run in runs) == [0, 2], [warm.output(fault) for fault in faults]
        assert_right(target)


@pytest.mark.parametrize("repeat_count", [2, slow(8)])
def test_two_runs_of_the_same_plan_at_once_do_no_harm(case: Case, repeat_count: int) -> None:
    """A step whose parent was killed goes on beside the run that resumes it; both write the same bytes."""
    for _ in range(repeat_count):
        target = case.target()
        with ThreadPoolExecutor(2) as pool:
            runs = [pool.submit(case.run, target, case.faults()) for _ in range(2)]
        assert {run.result() for run in runs} <= {0, 1}
        case.succeed(target)
        assert_right(target)


@pytest.mark.parametrize("kind", [Kind.UNCONDITIONAL, Kind.REFUSED])
def test_store_that_ignores_or_refuses_conditions_is_refused_unless_accepted(case: Case, kind: Kind) -> None:
    target, faults = case.target(), case.faults(kind)
    assert case.run(target, faults) == 3
    assert "--accept-unconditional-publish" in warm.output(faults)
    assert open_store(target).list(target) == []
    assert case.run(target, faults, "--accept-unconditional-publish") == 0
    assert_right(target)
    assert case.run(target, faults, "--accept-unconditional-publish") == 0


@in_shares
def test_discard_removes_all_that_a_killed_run_left(case: Case, share: Share[int]) -> None:
    """A discard can itself be killed and repeated; afterwards another plan may have the target."""
    for k in share(range(2, case.calls_before_publication() + 1)):
        target, faults = case.target(), case.faults()
        assert case.run(target, case.faults(Kind.KILL, k)) == KILLED
        assert case.discard(target, case.faults(Kind.KILL, 1 + k % 4)) in (KILLED, 0)
        assert case.discard(target, faults) == 0, warm.output(faults)
        assert open_store(target).list(target) == []
        assert open_store(target).list(f"{target}.rescale") == []
        assert case.discard(target, faults) == 0
    assert case.run(target, case.faults(), parallelism="2") == 0
    assert_right(target)


@in_shares
def test_discard_killed_at_any_call_can_be_repeated(case: Case, share: Share[int]) -> None:
    last_call = case.calls_before_publication()
    target, counting_faults = case.target(), case.faults(writes_only=False)
    assert case.run(target, case.faults(Kind.KILL, last_call)) == KILLED
    assert case.discard(target, counting_faults) == 0
    for k in share(range(1, len(counting_faults.calls()) + 1)):
        target = case.target()
        assert case.run(target, case.faults(Kind.KILL, last_call)) == KILLED
        assert case.discard(target, case.faults(Kind.KILL, k, writes_only=False)) == KILLED
        assert case.discard(target, case.faults()) == 0
        assert open_store(target).list(target) == []
        assert open_store(target).list(f"{target}.rescale") == []


@locally_and_on_s3
def test_discard_of_a_published_result_is_refused(case: Case) -> None:
    target, faults = case.target(), case.faults()
    case.succeed(target)
    entries_before = open_store(target).list(target)
    assert case.discard(target, faults) == 2
    assert "published" in warm.output(faults)
    assert open_store(target).list(target) == entries_before
    assert_right(target)


def test_discard_and_run_keep_foreign_files(case: Case) -> None:
    target = case.target()
    store, foreign_uri = unprotected_store(target), join(target, "notes.txt")
    store.put(foreign_uri, b"mine")
    assert case.discard(target, case.faults()) == 2
    faults = case.faults()
    assert case.run(target, faults) == 2
    assert "notes.txt" in warm.output(faults)
    store.delete([foreign_uri])
    assert case.run(target, case.faults(Kind.KILL, case.calls_before_publication())) == KILLED
    store.put(foreign_uri, b"mine")
    assert case.discard(target, case.faults()) == 0
    assert [entry.uri for entry in store.list(target)] == [foreign_uri]


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Return a folder with a short path, as sockets need it."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.mark.parametrize(
    ("call_of_kill", "exit_code"),
    [
        slow("handles-keyed.json", 1),  # the driver of the reshuffle
        slow("copy", 0),  # a worker, alone: its task is done again
        slow("handles-operator.json", 1),
        slow("certificate.json", 1),
        slow("_metadata", KILLED),
    ],
)
def test_process_killed_in_any_step_is_resumed(
    call_of_kill: str, exit_code: int, tmp_path: Path, short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scratch files of its workers are gone when the run has ended."""
    target, scratch = str(tmp_path / "target"), short_folder
    monkeypatch.setenv("TMPDIR", str(scratch))
    kind = Kind.KILL_WORKER if call_of_kill == "copy" else Kind.KILL
    kill_faults, resume_faults = (
        Faults(str(tmp_path / "log"), kind, 1, call_of_kill, True),
        Faults(str(tmp_path / "again"), writes_only=True),
    )
    arguments = ["run", snapshots.directory(SNAPSHOT), "--target", target, "--parallelism", "3"]
    assert real_run(arguments, kill_faults, tmp_path) == exit_code
    assert is_published(target) == (exit_code == 0)
    if exit_code == 1:
        assert any(scratch.glob("rescale-tasks-*")), "a killed driver leaves the folders of its workers"
    (foreign_folder := scratch / "blockmgr-of-another").mkdir()
    assert real_run(arguments, resume_faults, tmp_path) == 0
    assert_right(target)
    assert list(scratch.iterdir()) == [foreign_folder]
