"""A run to another max parallelism, stopped at every storage call, leaves right files and is completed by a resume.

Small streams are written by several tasks each. On S3, whose parts must be larger, their parts are staged and joined.
"""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import pytest

from rescale.runstate.documents import load_plan
from rescale.runstate.places import places_of
from rescale.storage.store import open_store
from support import snapshots, warm
from support.faults import Kind
from support.rekeyed import assert_rekeyed
from support.results import unpublish
from support.resuming import KILLED, SNAPSHOT, Case, assert_right, assert_right_or_unpublished, case_on, is_published
from support.slow import Share, in_shares, slow

SHAPE = ("--max-parallelism", "40")
"""Shape of a rescale from max parallelism 16, which needs the hashes of keys."""

locally_and_on_s3 = pytest.mark.parametrize("case", ["local", "s3"], indirect=True)
"""Decorator of a test that always runs both locally and on S3; other tests run on S3 only as slow tests."""


@pytest.fixture(params=["local", slow("s3")])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    return case_on(request.param, request, tmp_path, SHAPE)


def assert_whole(target: str) -> None:
    """Check that the result is right to the byte, and that nothing is left staged."""
    assert_right(target)
    assert_rekeyed(snapshots.directory(SNAPSHOT), target)
    assert open_store(target).list(f"{target}.rescale/staging") == []


@locally_and_on_s3
def test_work_is_divided_among_tasks_and_joined(case: Case) -> None:
    """The plan under test divides the work and joins it, as the other tests need."""
    faults = case.succeed(target := case.target())
    assert_whole(target)
    verbs = [line.split()[0] for line in faults.calls()]
    staged_puts = [line for line in faults.calls() if line.startswith("put ") and "/staging/" in line]
    stream_count = verbs.count("complete_parts")
    assert stream_count == verbs.count("begin_parts") >= 2
    if case.home.startswith("s3:"):
        assert len(staged_puts) >= 2 * stream_count == 2 * verbs.count("put_part")
    else:
        assert not staged_puts
        assert verbs.count("put_part") >= 2 * stream_count


def record_write_numbers(case: Case) -> list[int]:
    """Return the numbers of the writes from the first keyed stream to the handles; other writes are as in any run."""
    calls = case.succeed(case.target()).calls()
    first = next(k for k, line in enumerate(calls, 1) if "-keyed-" in line)
    last = next(k for k, line in enumerate(calls, 1) if "handles-keyed" in line)
    return list(range(first, last + 1))


@in_shares
def test_run_killed_before_any_write_is_resumed(case: Case, share: Share[int]) -> None:
    for k in share(record_write_numbers(case)):
        target = case.target()
        assert case.run(target, case.faults(Kind.KILL, k)) == KILLED, f"at write {k}"
        assert not is_published(target)
        case.succeed(target, f"at write {k}")
        assert_whole(target)


@in_shares
def test_run_killed_before_any_read_is_resumed(tmp_path: Path, share: Share[int]) -> None:
    """Local files are enough, because reads leave nothing behind."""
    case = Case(str(tmp_path / "home"), tmp_path, 1000, SHAPE)
    counting_faults = case.faults(writes_only=False)
    assert case.run(case.target(), counting_faults) == 0
    read_numbers = [k for k, line in enumerate(counting_faults.calls(), 1) if line.startswith("read ")]
    assert read_numbers
    for k in share(read_numbers):
        target = case.target()
        assert case.run(target, case.faults(Kind.KILL, k, writes_only=False)) == KILLED, f"at call {k}"
        assert_right_or_unpublished(target)
        case.succeed(target, f"at call {k}")
        assert_whole(target)


@in_shares
def test_lost_answer_to_a_write_ends_with_exit_code_1_and_is_resumed(case: Case, share: Share[int]) -> None:
    for k in share(record_write_numbers(case)[1::2]):
        target, faults = case.target(), case.faults(Kind.LOST_ANSWER, k)
        assert case.run(target, faults) == 1, f"at write {k}: {warm.output(faults)}"
        assert not is_published(target)
        case.succeed(target, f"at write {k}")
        assert_whole(target)


def test_only_missing_files_are_written_again(case: Case) -> None:
    target = case.target()
    case.succeed(target)
    store = open_store(target)
    lost_file = next(entry.uri for entry in store.list(target) if "-keyed-1-" in entry.uri)
    (plan_uri,) = [entry.uri for entry in store.list(f"{target}.rescale") if fnmatch(entry.uri, "*/plan-*.json")]
    places = places_of(load_plan(plan_uri))
    unpublish(places)
    store.delete([places.written_handles("keyed"), lost_file])
    second_run = case.succeed(target)
    written_files = {line.split()[1] for line in second_run.calls() if line.startswith("complete_parts")}
    assert written_files == {lost_file}
    assert_whole(target)


def test_killed_run_can_be_discarded(case: Case) -> None:
    store = open_store(case.home)
    for k in record_write_numbers(case)[2::5]:
        target = case.target()
        assert case.run(target, case.faults(Kind.KILL, k)) == KILLED
        assert case.discard(target, case.faults()) == 0
        assert store.list(target) == store.list(f"{target}.rescale") == []
