"""Preparation of a target: repeated, taken over by any run, discarded, and stopped when a run claims the target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rescale.execution.preparing import prepare_files
from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.execution.writers.stream_units import UnitWriter
from rescale.plan.plan import Plan
from rescale.planning.prepare import prepare
from rescale.planning.request.request import make_request
from rescale.runstate import preparation
from rescale.runstate.claim import claim
from rescale.runstate.places import is_prepared_file, run_directory
from rescale.runstate.preparation import begin_preparing, holds_only_prepared_files, is_prepared, prepared_sizes
from rescale.runstate.publication import publish
from rescale.runstate.removal import discard
from rescale.storage.locations import join, name
from rescale.storage.store import Pin, open_store
from rescale.text.errors import IntegrityError, RequestError, StoreError
from support import snapshots
from support.checkpoints import Checkpoints, checkpoints_in
from support.pipeline import certify, execute_without_spark, move, plan_rescale
from support.s3 import new_home, unprotected_store
from support.slow import slow

SHAPE = ("4",)


@pytest.fixture(params=["local", "s3", slow("uses_strict_s3")])
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a directory. Results have files there, because even small state is not inlined."""
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    return new_home(request.param, request, tmp_path / "home")


@pytest.fixture
def job(home: str, tmp_path: Path) -> Checkpoints:
    return checkpoints_in("2-rocksdb-incremental", join(home, "job"), tmp_path / "scratch")


@pytest.fixture
def target(home: str) -> str:
    return join(home, "target")


def plan_ahead(job: Checkpoints, target: str, parallelism: tuple[str, ...] = SHAPE) -> Plan:
    return prepare(make_request(job.directory, target, parallelism), copies_ahead=True).plan


def prepare_target(job: Checkpoints, target: str, parallelism: tuple[str, ...] = SHAPE) -> tuple[int, int]:
    """Copy files ahead; return how many files there are, and how many of them are new."""
    plan = plan_ahead(job, target, parallelism)
    begin_preparing(plan)
    preparation_result = prepare_files(plan, InProcessTasks())
    return preparation_result.files, preparation_result.new_files


def files_in(target: str) -> dict[str, Pin]:
    return {name(entry.uri): entry.pin for entry in open_store(target).list(target)}


def test_unfinished_file_of_a_killed_preparation_is_not_a_file_of_others(job: Checkpoints, target: str) -> None:
    """If the target is a mount point, unfinished files lie in the target itself."""
    prepare_target(job, target)
    store = open_store(target)
    store.put(join(target, f".{name(target)}.{'0' * 32}.tmp"), b"")
    assert holds_only_prepared_files(target)
    store.put(join(target, "notes"), b"")
    assert not holds_only_prepared_files(target)


def test_run_uses_the_files_that_were_copied_ahead(job: Checkpoints, target: str) -> None:
    source = {entry.uri: entry.pin for entry in open_store(job.directory).list(job.directory)}
    files, new = prepare_target(job, target)
    assert files == new > 0
    prepared = files_in(target)
    job.copy_newest(job.number + 1)
    assert prepare_target(job, target) == (files, 0), "a checkpoint with the same files"
    plan = plan_rescale(job.newest, target, SHAPE)
    execute_without_spark(plan)
    target_files = files_in(target)
    assert {file: pin for file, pin in target_files.items() if is_prepared_file(file)} == prepared
    assert validate_published(job.newest, target, InProcessTasks()).verdict == "complete"
    assert plan_rescale(job.newest, target, SHAPE).digest == plan.digest, "the same command answers again"
    after = {entry.uri: entry.pin for entry in open_store(job.directory).list(job.directory)}
    assert source.items() <= after.items(), "the source is as it was"


@pytest.mark.parametrize("parallelism", ["3", "2", "1"])
def test_run_with_another_shape_takes_over_a_prepared_target(job: Checkpoints, target: str, parallelism: str) -> None:
    prepare_target(job, target)
    maximum = ["1000"] if parallelism == "1" else []
    plan = plan_rescale(job.newest, target, [parallelism], max_parallelism=maximum)
    execute_without_spark(plan)
    assert {file for file in files_in(target) if is_prepared_file(file)} == prepared_sizes(plan).keys()
    assert validate_published(job.newest, target, InProcessTasks()).verdict == "complete"


def test_prepared_files_that_the_newest_checkpoint_lacks_are_removed(job: Checkpoints, target: str, home: str) -> None:
    files, _ = prepare_target(job, target)
    before = files_in(target)
    job.move_shared_to(join(home, "job/elsewhere"))
    assert prepare_target(job, target) == (files, files), "other places have other identities"
    assert len(files_in(target)) == files
    assert not files_in(target).keys() & before.keys()


def test_discard_removes_prepared_files_and_keeps_those_of_others(job: Checkpoints, target: str) -> None:
    prepare_target(job, target)
    foreign = [join(target, "notes.txt"), join(run_directory(target), "notes.txt")]
    for uri in foreign:
        unprotected_store(uri).put(uri, b"mine")
    assert discard(target).left == tuple(sorted(foreign))
    remaining = [entry.uri for place in (target, run_directory(target)) for entry in open_store(target).list(place)]
    assert remaining == foreign
    assert not is_prepared(target)


@pytest.mark.parametrize("moved", [False, True])
def test_discard_of_a_claimed_target_removes_its_prepared_files(job: Checkpoints, target: str, moved: bool) -> None:
    prepare_target(job, target)
    prepare_target(job, target, ("3",))
    plan = plan_rescale(job.newest, target, SHAPE)
    move(plan, InProcessTasks()) if moved else claim(plan)
    discard(target)
    assert not files_in(target)
    assert not open_store(target).list(run_directory(target))


def test_task_that_goes_on_with_a_newer_checkpoint_keeps_what_was_copied_ahead(job: Checkpoints, target: str) -> None:
    prepare_target(job, target)
    prepared = files_in(target)
    move(plan_rescale(job.newest, target, SHAPE), InProcessTasks())
    assert len(files_in(target)) > len(prepared)
    discard(target, keeps_follower=True)
    assert files_in(target) == prepared
    assert [name(entry.uri) for entry in open_store(target).list(run_directory(target))] == ["prepared.json"]
    discard(target)
    assert not files_in(target)


def test_claimed_target_is_not_prepared(job: Checkpoints, target: str) -> None:
    claim(plan_rescale(job.newest, target, SHAPE))
    with pytest.raises(RequestError, match="the target is claimed by another plan"):
        prepare_target(job, target)
    assert not is_prepared(target)


def test_target_with_files_of_others_is_not_prepared(job: Checkpoints, target: str) -> None:
    unprotected_store(target).put(join(target, "notes.txt"), b"mine")
    with pytest.raises(RequestError, match="the target is occupied"):
        prepare_target(job, target)
    assert not is_prepared(target)


def test_target_is_not_prepared_for_a_plan_that_uses_no_sst_file_unchanged(job: Checkpoints, target: str) -> None:
    plan = prepare(make_request(job.directory, target, SHAPE, max_parallelism=["1000"]), copies_ahead=True).plan
    with pytest.raises(RequestError, match="takes no SST file of the source as it is"):
        begin_preparing(plan)
    assert not open_store(target).list(run_directory(target))


@pytest.mark.parametrize(
    ("fixture", "message"), [("2-rocksdb-checkpoint", "they go into _metadata"), ("2-clicks", "no SST file to copy")]
)
def test_refused_preparation_says_which_sst_files_there_are(tmp_path: Path, fixture: str, message: str) -> None:
    plan = prepare(make_request(snapshots.directory(fixture), str(tmp_path / "target"), SHAPE), copies_ahead=True).plan
    with pytest.raises(RequestError) as caught:
        begin_preparing(plan)
    assert message in str(caught.value.found)


def do_before_copy(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object], *, at: int) -> None:
    """Call `do` right before the file with this number is copied, after the check for a claim."""
    copy, copied = UnitWriter.__call__, [0]

    def copying(writer: UnitWriter, unit: object) -> object:
        copied[0] += 1
        if copied[0] == at:
            with monkeypatch.context() as undisturbed:
                undisturbed.setattr(UnitWriter, "__call__", copy)
                do()
        return copy(writer, unit)  # type: ignore[arg-type]

    monkeypatch.setattr(UnitWriter, "__call__", copying)


@pytest.mark.parametrize("at", [1, 3])
def test_preparation_stops_when_a_run_claims_the_target(
    job: Checkpoints, target: str, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """The run publishes its result while the preparation copies files.

    The preparation then copies one more file, which belongs to that result or is removed.
    """
    run = plan_rescale(job.newest, target, ("3",))
    assert not run.prepared

    def publish_another() -> None:
        execute_without_spark(plan_rescale(job.newest, target, ("3",)))

    do_before_copy(monkeypatch, publish_another, at=at)
    with pytest.raises(RequestError, match="a run has claimed the target, so nothing more is copied ahead"):
        prepare_target(job, target)
    assert validate_published(job.newest, target, InProcessTasks()).verdict == "complete"


def test_preparation_stops_and_leaves_no_file_when_its_target_is_discarded(
    job: Checkpoints, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    do_before_copy(monkeypatch, lambda: discard(target), at=2)
    with pytest.raises(RequestError, match="the target was discarded while files were copied into it"):
        prepare_target(job, target)
    assert not files_in(target)
    assert not open_store(target).list(run_directory(target))


def test_preparation_that_loses_against_a_run_does_not_change_the_run_s_plan(job: Checkpoints, target: str) -> None:
    plan = plan_rescale(job.newest, target, SHAPE)
    other = plan_ahead(job, target)
    begin_preparing(other)
    claim(plan)
    with pytest.raises(RequestError, match="a run has claimed the target"):
        prepare_files(other, InProcessTasks())
    assert not is_prepared(target)
    assert plan_rescale(job.newest, target, SHAPE).digest == plan.digest, "the same command would be refused"
    execute_without_spark(plan)


def test_run_removes_what_a_killed_preparation_left_after_the_plan(job: Checkpoints, target: str) -> None:
    plan, other = plan_rescale(job.newest, target, SHAPE), plan_ahead(job, target)
    begin_preparing(other)
    claim(plan)
    open_store(target).put(join(target, min(prepared_sizes(other))), b"the first file")
    execute_without_spark(plan)
    assert not is_prepared(target)
    assert not [file for file in files_in(target) if is_prepared_file(file)]
    assert plan_rescale(job.newest, target, SHAPE).digest == plan.digest, "the same command would be refused"


def test_publish_removes_a_prepared_file_that_arrives_after_validation(job: Checkpoints, target: str) -> None:
    prepare_target(job, target)
    plan = plan_rescale(job.newest, target, SHAPE)
    other = plan_ahead(job, target, ("3",))
    late = min(prepared_sizes(other).keys() - prepared_sizes(plan).keys())
    certify(plan)
    open_store(target).put(join(target, late), b"late")
    publish(plan)
    assert late not in files_in(target)
    assert files_in(target).keys() >= prepared_sizes(plan).keys()


def test_run_over_a_damaged_prepared_file_is_refused(job: Checkpoints, target: str) -> None:
    prepare_target(job, target)
    plan = plan_rescale(job.newest, target, SHAPE)
    file = min(prepared_sizes(plan))
    uri = join(target, file)
    data = bytearray(open_store(uri).read_all(uri, 1 << 20)[0])
    data[len(data) // 2] ^= 1
    unprotected_store(uri).put(uri, bytes(data))
    with pytest.raises((IntegrityError, StoreError)) as caught:
        execute_without_spark(plan)
    assert caught.value.path is not None
    assert join(target, "_metadata") not in [entry.uri for entry in open_store(target).list(target)]


def test_preparation_deletes_no_file_once_a_run_has_claimed_the_target(
    job: Checkpoints, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_target(job, target)
    before = files_in(target)
    run = plan_rescale(job.newest, target, SHAPE)
    other = plan_ahead(job, target, ("3",))
    begin_preparing(other)
    unused = preparation._unused_files

    def claim_behind_the_listing(*arguments: object) -> list[str]:
        listed = unused(*arguments)  # type: ignore[arg-type]
        claim(run)
        return listed

    with monkeypatch.context() as patched:
        patched.setattr(preparation, "_unused_files", claim_behind_the_listing)
        with pytest.raises(RequestError, match="a run has claimed the target"):
            prepare_files(other, InProcessTasks())
    assert before.items() <= files_in(target).items()
