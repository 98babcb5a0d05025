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

PARALLELISM = ("4",)


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


def plan_ahead(job: Checkpoints, target: str, parallelism: tuple[str, ...] = PARALLELISM) -> Plan:
    return prepare(make_request(job.directory, target, parallelism), copies_ahead=True).plan


def prepare_target(job: Checkpoints, target: str, parallelism: tuple[str, ...] = PARALLELISM) -> tuple[int, int]:
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
    source_pins = {entry.uri: entry.pin for entry in open_store(job.directory).list(job.directory)}
    file_count, new_file_count = prepare_target(job, target)
    assert file_count == new_file_count > 0
    prepared_pins = files_in(target)
    job.copy_newest(job.number + 1)
    assert prepare_target(job, target) == (file_count, 0), "a checkpoint with the same files"
    plan = plan_rescale(job.newest, target, PARALLELISM)
    execute_without_spark(plan)
    target_pins = files_in(target)
    assert {file: pin for file, pin in target_pins.items() if is_prepared_file(file)} == prepared_pins
    assert validate_published(job.newest, target, InProcessTasks()).verdict == "complete"
    assert plan_rescale(job.newest, target, PARALLELISM).digest == plan.digest, "the same command answers again"
    pins_after = {entry.uri: entry.pin for entry in open_store(job.directory).list(job.directory)}
    assert source_pins.items() <= pins_after.items(), "the source is as it was"


@pytest.mark.parametrize("parallelism", ["3", "2", "1"])
def test_run_with_another_shape_takes_over_a_prepared_target(job: Checkpoints, target: str, parallelism: str) -> None:
    prepare_target(job, target)
    max_parallelism = ["1000"] if parallelism == "1" else []
    plan = plan_rescale(job.newest, target, [parallelism], max_parallelism=max_parallelism)
    execute_without_spark(plan)
    assert {file for file in files_in(target) if is_prepared_file(file)} == prepared_sizes(plan).keys()
    assert validate_published(job.newest, target, InProcessTasks()).verdict == "complete"


def test_prepared_files_that_the_newest_checkpoint_lacks_are_removed(job: Checkpoints, target: str, home: str) -> None:
    file_count, _ = prepare_target(job, target)
    before = files_in(target)
    job.move_shared_to(join(home, "job/elsewhere"))
    assert prepare_target(job, target) == (file_count, file_count), "other places have other identities"
    assert len(files_in(target)) == file_count
    assert not files_in(target).keys() & before.keys()


def test_discard_removes_prepared_files_and_keeps_those_of_others(job: Checkpoints, target: str) -> None:
    prepare_target(job, target)
    foreign_uris = [join(target, "notes.txt"), join(run_directory(target), "notes.txt")]
    for uri in foreign_uris:
        unprotected_store(uri).put(uri, b"mine")
    assert discard(target).left == tuple(sorted(foreign_uris))
    remaining = [entry.uri for place in (target, run_directory(target)) for entry in open_store(target).list(place)]
    assert remaining == foreign_uris
    assert not is_prepared(target)


@pytest.mark.parametrize("is_moved", [False, True])
def test_discard_of_a_claimed_target_removes_its_prepared_files(job: Checkpoints, target: str, is_moved: bool) -> None:
    prepare_target(job, target)
    prepare_target(job, target, ("3",))
    plan = plan_rescale(job.newest, target, PARALLELISM)
    move(plan, InProcessTasks()) if is_moved else claim(plan)
    discard(target)
    assert not files_in(target)
    assert not open_store(target).list(run_directory(target))


def test_discard_that_keeps_the_follower_keeps_what_was_copied_ahead(job: Checkpoints, target: str) -> None:
    prepare_target(job, target)
    prepared_pins = files_in(target)
    move(plan_rescale(job.newest, target, PARALLELISM), InProcessTasks())
    assert len(files_in(target)) > len(prepared_pins)
    discard(target, keeps_follower=True)
    assert files_in(target) == prepared_pins
    assert [name(entry.uri) for entry in open_store(target).list(run_directory(target))] == ["prepared.json"]
    discard(target)
    assert not files_in(target)


def test_claimed_target_is_not_prepared(job: Checkpoints, target: str) -> None:
    claim(plan_rescale(job.newest, target, PARALLELISM))
    with pytest.raises(RequestError, match="the target is claimed by another plan"):
        prepare_target(job, target)
    assert not is_prepared(target)


def test_target_with_files_of_others_is_not_prepared(job: Checkpoints, target: str) -> None:
    unprotected_store(target).put(join(target, "notes.txt"), b"mine")
    with pytest.raises(RequestError, match="the target is occupied"):
        prepare_target(job, target)
    assert not is_prepared(target)


def test_target_is_not_prepared_for_a_plan_that_uses_no_sst_file_unchanged(job: Checkpoints, target: str) -> None:
    plan = prepare(make_request(job.directory, target, PARALLELISM, max_parallelism=["1000"]), copies_ahead=True).plan
    with pytest.raises(RequestError, match="takes no SST file of the source as it is"):
        begin_preparing(plan)
    assert not open_store(target).list(run_directory(target))


@pytest.mark.parametrize(
    ("fixture", "message"), [("2-rocksdb-checkpoint", "they go into _metadata"), ("2-clicks", "no SST file to copy")]
)
def test_refused_preparation_says_which_sst_files_there_are(tmp_path: Path, fixture: str, message: str) -> None:
    plan = prepare(
        make_request(snapshots.directory(fixture), str(tmp_path / "target"), PARALLELISM), copies_ahead=True
    ).plan
    with pytest.raises(RequestError) as caught:
        begin_preparing(plan)
    assert message in str(caught.value.found)


def act_before_copy(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object], *, file_number: int) -> None:
    """Call `action` right before the file with this number is copied, after the check for a claim."""
    copy, copy_count = UnitWriter.__call__, [0]

    def act_and_copy(writer: UnitWriter, unit: object) -> object:
        copy_count[0] += 1
        if copy_count[0] == file_number:
            with monkeypatch.context() as undisturbed:
                undisturbed.setattr(UnitWriter, "__call__", copy)
                action()
        return copy(writer, unit)  # type: ignore[arg-type]

    monkeypatch.setattr(UnitWriter, "__call__", act_and_copy)


@pytest.mark.parametrize("file_number", [1, 3])
def test_preparation_stops_when_a_run_claims_the_target(
    job: Checkpoints, target: str, monkeypatch: pytest.MonkeyPatch, file_number: int
) -> None:
    """The run publishes its result while the preparation copies files.

    The preparation then copies one more file, which belongs to that result or is removed.
    """
    run_plan = plan_rescale(job.newest, target, ("3",))
    assert not run_plan.prepared

    def publish_another() -> None:
        execute_without_spark(plan_rescale(job.newest, target, ("3",)))

    act_before_copy(monkeypatch, publish_another, file_number=file_number)
    with pytest.raises(RequestError, match="a run has claimed the target, so nothing more is copied ahead"):
        prepare_target(job, target)
    assert validate_published(job.newest, target, InProcessTasks()).verdict == "complete"


def test_preparation_stops_and_leaves_no_file_when_its_target_is_discarded(
    job: Checkpoints, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    act_before_copy(monkeypatch, lambda: discard(target), file_number=2)
    with pytest.raises(RequestError, match="the target was discarded while files were copied into it"):
        prepare_target(job, target)
    assert not files_in(target)
    assert not open_store(target).list(run_directory(target))


def test_preparation_that_loses_against_a_run_does_not_change_the_plan_of_the_run(
    job: Checkpoints, target: str
) -> None:
    plan = plan_rescale(job.newest, target, PARALLELISM)
    other_plan = plan_ahead(job, target)
    begin_preparing(other_plan)
    claim(plan)
    with pytest.raises(RequestError, match="a run has claimed the target"):
        prepare_files(other_plan, InProcessTasks())
    assert not is_prepared(target)
    assert plan_rescale(job.newest, target, PARALLELISM).digest == plan.digest, "the same command would be refused"
    execute_without_spark(plan)


def test_run_removes_a_prepared_file_that_arrives_after_its_claim(job: Checkpoints, target: str) -> None:
    plan, other_plan = plan_rescale(job.newest, target, PARALLELISM), plan_ahead(job, target)
    begin_preparing(other_plan)
    claim(plan)
    open_store(target).put(join(target, min(prepared_sizes(other_plan))), b"the first file")
    execute_without_spark(plan)
    assert not is_prepared(target)
    assert not [file for file in files_in(target) if is_prepared_file(file)]
    assert plan_rescale(job.newest, target, PARALLELISM).digest == plan.digest, "the same command would be refused"


def test_publish_removes_a_prepared_file_that_arrives_after_validation(job: Checkpoints, target: str) -> None:
    prepare_target(job, target)
    plan = plan_rescale(job.newest, target, PARALLELISM)
    other_plan = plan_ahead(job, target, ("3",))
    late_name = min(prepared_sizes(other_plan).keys() - prepared_sizes(plan).keys())
    certify(plan)
    open_store(target).put(join(target, late_name), b"late")
    publish(plan)
    assert late_name not in files_in(target)
    assert files_in(target).keys() >= prepared_sizes(plan).keys()


def test_run_over_a_damaged_prepared_file_is_refused(job: Checkpoints, target: str) -> None:
    prepare_target(job, target)
    plan = plan_rescale(job.newest, target, PARALLELISM)
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
    run_plan = plan_rescale(job.newest, target, PARALLELISM)
    other_plan = plan_ahead(job, target, ("3",))
    begin_preparing(other_plan)
    find_unused_files = preparation._unused_files

    def list_and_claim(*arguments: object) -> list[str]:
        unused_uris = find_unused_files(*arguments)  # type: ignore[arg-type]
        claim(run_plan)
        return unused_uris

    with monkeypatch.context() as patched:
        patched.setattr(preparation, "_unused_files", list_and_claim)
        with pytest.raises(RequestError, match="a run has claimed the target"):
            prepare_files(other_plan, InProcessTasks())
    assert before.items() <= files_in(target).items()
