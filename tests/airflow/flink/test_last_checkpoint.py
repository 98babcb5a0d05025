"""A job of a real session cluster is cancelled right after a checkpoint, which is rescaled or restored again."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree, move
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from rescale.airflow.flink import answer_watch, last_checkpoint
from rescale.airflow.flink.answer_watch import AnswerWatch, first_fresh_request_time
from rescale.airflow.flink.final_checkpoint import refuse_later_snapshot
from rescale.airflow.flink.inspection import inspect_job
from rescale.airflow.flink.job_record import RECORD_KEY, Phase
from rescale.airflow.flink.operators import HandOverJob
from rescale.airflow.flink.stopping import JobToRestart
from rescale.airflow.hand_overs import RunJar
from rescale.airflow.job.job_operators import GoBack, TakeSavepoint
from rescale.airflow.steps.retries import TaskEnded
from rescale.flink.metadata.properties import SnapshotType
from rescale.flink_rest.client import Flink, SavepointFormat, StopMode
from rescale.snapshot.reading.discovery import complete_checkpoints, find_metadata
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import RequestError, SnapshotError, StoreError
from support.deferring import TaskState, run_operator
from support.pipeline import execute_without_spark, plan_rescale
from support.session_cluster import ONE_CHECKPOINT, ROCKSDB, SessionCluster, has_checkpoint, native_options, wait_until
from support.slow import slow

RETAINED = {
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    **ONE_CHECKPOINT,
}


def run(cluster: SessionCluster, options: dict[str, str], checkpoints: int = 1, **more: str) -> str:
    """Start the job and let it make its first checkpoints; the next one comes much later."""
    job_id = cluster.run(2, options=options, **more)
    wait_until(lambda: cluster.is_counting(job_id), "the job to count")
    with cluster.open() as flink:
        for _ in range(checkpoints):
            last_checkpoint.take_checkpoint(flink, job_id)
    wait_until(lambda: has_checkpoint(cluster, job_id), "Flink to tell of the checkpoint")
    return job_id


def look(cluster: SessionCluster, job_id: str, options: dict[str, str]) -> JobToRestart:
    jar = RunJar(cluster.address, "counts.jar", "Counts", configuration=options)
    return inspect_job(cluster.address, job_id, StopMode.CHECKPOINT, None, jar)


def take(before: JobToRestart, run_id: str, state: TaskState | None = None) -> Any:
    return run_operator(TakeSavepoint(task_id="take", old_job_document=msgspec.to_builtins(before)), run_id, state)


def back(before: JobToRestart, taken: Any, run_id: str, state: TaskState | None = None) -> Any:
    operator = GoBack(task_id="back", old_job_document=msgspec.to_builtins(before), take_output=taken)
    return run_operator(operator, run_id, state)


@pytest.mark.parametrize("backend", [ROCKSDB, slow({})], ids=["rocksdb", "hashmap"])
def test_last_checkpoint_is_rescaled_or_restored_again(
    cluster: SessionCluster, tmp_path: Path, backend: dict[str, str]
) -> None:
    options = {**native_options(cluster, backend), **RETAINED}
    job_id = run(cluster, options)
    before = look(cluster, job_id, options)
    first = int(last_checkpoint.newest_checkpoint(before.directory).rpartition("chk-")[2])
    taken = take(before, job_id)
    assert taken["state"] == "CANCELED"
    assert taken["savepoint"] == f"{before.directory}/chk-{first + 2}"
    assert open_snapshot(taken["savepoint"]).type is SnapshotType.CHECKPOINT
    plan = plan_rescale(taken["savepoint"], str(tmp_path / "result"), ["3"], max_parallelism=["256"])
    execute_without_spark(plan)
    arguments = {"old_job_document": msgspec.to_builtins(before), "start": plan.start._asdict()}
    started = run_operator(HandOverJob(task_id="hand_over", **arguments), job_id)
    vertices = cluster.job(started["job"]).vertices
    assert {(vertex.parallelism, vertex.max_parallelism) for vertex in vertices} == {(3, 256)}
    wait_until(lambda: cluster.is_counting(started["job"]), "the job to go on counting")
    old = back(before, taken, job_id)
    assert Path(old["restored_from"].removeprefix("file:")) == Path(taken["savepoint"])
    wait_until(lambda: cluster.is_counting(old["job"]), "the job to go on counting")
    assert cluster.alive() == {old["job"]}


@pytest.mark.slow
def test_run_killed_after_its_cancel_resumes_or_restarts_the_job(cluster: SessionCluster) -> None:
    options = {**native_options(cluster, ROCKSDB), **RETAINED}
    job_id = run(cluster, options)
    before = look(cluster, job_id, options)
    state = TaskState()
    with (
        patch.object(last_checkpoint, "_CANCEL_TIMEOUT_SECONDS", -1),
        pytest.raises(TaskEnded),
    ):
        take(before, job_id, state)
    assert state[RECORD_KEY]["old_job"]["job_id"] == job_id
    assert f"chk-{state[RECORD_KEY]['checkpoint']}" in last_checkpoint.newest_checkpoint(before.directory)
    assert take(before, job_id, TaskState(state))["savepoint"] == last_checkpoint.newest_checkpoint(before.directory)
    old = back(before, None, job_id, state)
    assert Path(old["restored_from"].removeprefix("file:")) == Path(last_checkpoint.newest_checkpoint(before.directory))
    assert cluster.alive() == {old["job"]}
    with pytest.raises(TaskEnded, match="this run has started the job again with its old shape"):
        take(before, job_id, state)
    with pytest.raises(TaskEnded, match="the job has ended, and this run has not cancelled it"):
        take(before, "another run")


@pytest.mark.slow
def test_run_killed_before_its_cancel_leaves_the_job_running(cluster: SessionCluster) -> None:
    options = {**native_options(cluster, ROCKSDB), **RETAINED}
    job_id = run(cluster, options)
    before, state = look(cluster, job_id, options), TaskState()
    with patch.object(Flink, "cancel", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        take(before, job_id, state)
    assert state[RECORD_KEY]["phase"] == Phase.STOPS
    assert cluster.alive() == {job_id}
    assert take(before, job_id, state)["state"] == "CANCELED"


@pytest.mark.slow
def test_aborted_checkpoint_is_not_rescaled(cluster: SessionCluster) -> None:
    """Flink has written `_metadata` of a checkpoint that it does not report as completed."""
    options = {**native_options(cluster, ROCKSDB), **RETAINED}
    job_id = run(cluster, options)
    before, state = look(cluster, job_id, options), TaskState()

    def cancel(flink: Flink, job_id: str) -> None:
        real_cancel(flink, job_id)
        newest = last_checkpoint.newest_checkpoint(before.directory)
        copytree(newest, f"{before.directory}/chk-{int(newest.rpartition('-')[2]) + 1}")

    real_cancel = last_checkpoint.cancel
    with (
        patch.object(last_checkpoint, "cancel", cancel),
        pytest.raises(TaskEnded, match="not the one that Flink completed last"),
    ):
        take(before, job_id, state)
    old = back(before, None, job_id, state)
    aborted_number = int(last_checkpoint.newest_checkpoint(before.directory).rpartition("-")[2])
    assert Path(old["restored_from"].removeprefix("file:")).name == f"chk-{aborted_number - 1}"
    wait_until(lambda: cluster.is_counting(old["job"]), "the job to go on counting")
    assert cluster.alive() == {old["job"]}


@pytest.mark.slow
def test_job_stopped_by_somebody_else_is_not_started_again(cluster: SessionCluster) -> None:
    """A job that finishes with a savepoint commits what it wrote, and Flink deletes even its retained checkpoints."""
    options = {**native_options(cluster, ROCKSDB), **RETAINED}
    job_id = run(cluster, options)
    before, state = look(cluster, job_id, options), TaskState()

    def cancel(flink: Flink, job_id: str) -> None:
        folder = (cluster.folder / "savepoints").as_uri()
        flink.trigger_savepoint(job_id, "5" * 32, folder, StopMode.STOP, SavepointFormat.NATIVE)
        wait_until(lambda: not cluster.alive(), "the job to finish")
        real_cancel(flink, job_id)

    real_cancel = last_checkpoint.cancel
    with patch.object(last_checkpoint, "cancel", cancel), pytest.raises(TaskEnded, match="has finished by itself"):
        take(before, job_id, state)
    with pytest.raises(TaskEnded, match="has finished by itself"):
        back(before, None, job_id, state)
    assert cluster.alive() == set()
    with cluster.open() as flink, pytest.raises(RequestError, match="somebody else has stopped the job"):
        refuse_later_snapshot(flink, job_id, first_fresh_request_time(flink, time.monotonic()), 99)


@pytest.mark.slow
def test_stop_by_somebody_else_right_before_the_cancel_is_seen(cluster: SessionCluster) -> None:
    """The cached answer is older than the stop, and expires so soon that the next one is known to be newer."""
    job_id = run(cluster, {**native_options(cluster, ROCKSDB), **RETAINED})
    patience = patch.multiple(answer_watch, _LEAST_CANCEL_SECONDS=2.0, _SHORT_LIFETIME_IN_CANCELS=1)
    with patience, cluster.open() as flink, AnswerWatch(flink, job_id) as answers:
        last_checkpoint.take_checkpoint(flink, job_id)
        answers.wait_until_answer_expires_soon()
        folder = (cluster.folder / "savepoints").as_uri()
        flink.trigger_savepoint(job_id, "6" * 32, folder, StopMode.STOP, SavepointFormat.NATIVE)
        wait_until(lambda: not cluster.alive(), "the job to finish")
        ended = time.monotonic()
        answers.end()
        with pytest.raises(RequestError, match="somebody else has stopped the job"):
            refuse_later_snapshot(flink, job_id, answers.first_fresh_request_time(ended), 99)


@dataclass(frozen=True)
class EarlierStart:
    """A start of a job that has left its last checkpoint in `directory`.

    Flink has forgotten the job and starts another one; with high availability, all starts may have the same id.
    """

    cluster: SessionCluster
    options: dict[str, str]
    job_id: str
    directory: Path

    @property
    def numbers(self) -> list[int]:
        """Return the numbers of the checkpoints in the directory."""
        return complete_checkpoints(str(self.directory))

    def start_again(self, checkpoints: int, snapshot: str = "") -> None:
        run(self.cluster, self.options, checkpoints, job_id=self.job_id, snapshot=snapshot)

    def hand_over(self, before: JobToRestart, target: Path) -> int:
        """Stop the job, rescale its checkpoint, start it from the result; return the checkpoint's number."""
        taken = take(before, self.job_id)
        assert Path(taken["savepoint"]).parent == self.directory
        plan = plan_rescale(taken["savepoint"], str(target), ["3"], max_parallelism=["256"])
        execute_without_spark(plan)
        arguments = {"old_job_document": msgspec.to_builtins(before), "start": plan.start._asdict()}
        started = run_operator(HandOverJob(task_id="hand_over", **arguments), self.job_id)
        wait_until(lambda: self.cluster.is_counting(started["job"]), "the job to go on counting")
        assert self.cluster.alive() == {started["job"]}
        return plan.checkpoint_id


@pytest.fixture
def earlier(cluster: SessionCluster) -> EarlierStart:
    """Return a start of a job that has left the checkpoint 6 or, if Flink has made one by itself, 7."""
    failing = {"execution.checkpointing.tolerable-failed-checkpoints": "3"}
    options = {**native_options(cluster, ROCKSDB), **RETAINED, **failing}
    job_id = run(cluster, options, checkpoints=6)
    directory = Path(look(cluster, job_id, options).directory)
    with cluster.open() as flink:
        last_checkpoint.cancel(flink, job_id)
    cluster.lose_both()
    return EarlierStart(cluster, options, job_id, directory)


@pytest.mark.slow
def test_job_is_left_alone_while_the_highest_checkpoint_is_of_an_earlier_start(
    cluster: SessionCluster, earlier: EarlierStart, tmp_path: Path
) -> None:
    (highest,) = earlier.numbers
    earlier.start_again(checkpoints=1)
    completed = earlier.numbers[0]
    assert earlier.numbers == [completed, highest]
    with pytest.raises(RequestError, match="from an earlier start of the job") as caught:
        look(cluster, earlier.job_id, earlier.options)
    assert caught.value.found == f"checkpoint {highest}"
    assert f"checkpoint {completed}," in str(caught.value.expected)
    assert cluster.alive() == {earlier.job_id}
    with pytest.raises(RequestError, match="checkpoints of two starts of a job"):
        find_metadata(str(earlier.directory))
    move(earlier.directory / f"chk-{highest}", tmp_path)
    before = look(cluster, earlier.job_id, earlier.options)
    assert earlier.hand_over(before, tmp_path / "result") == completed + 2


@pytest.mark.slow
def test_later_start_is_rescaled_once_its_checkpoints_have_passed_those_of_the_earlier_one(
    cluster: SessionCluster, earlier: EarlierStart, tmp_path: Path
) -> None:
    """Flink does not overwrite a checkpoint of the earlier start: its own one with that number fails."""
    (highest,) = earlier.numbers
    with pytest.raises(StoreError, match="Flink could not take a checkpoint") as caught:
        earlier.start_again(checkpoints=highest)
    assert f"chk-{highest}/_metadata already exists" in str(caught.value.found)
    with cluster.open() as flink:
        newest = last_checkpoint.take_checkpoint(flink, earlier.job_id)
    assert newest == earlier.numbers[-1] == highest + 1
    assert find_metadata(str(earlier.directory)) == f"{earlier.directory}/chk-{newest}/_metadata"
    before = look(cluster, earlier.job_id, earlier.options)
    assert earlier.hand_over(before, tmp_path / "result") == newest + 2


@pytest.mark.slow
def test_later_start_from_the_last_checkpoint_is_rescaled(
    cluster: SessionCluster, earlier: EarlierStart, tmp_path: Path
) -> None:
    """Checkpoint numbers go on. The checkpoint from which the job was started stays: the job does not own it."""
    (highest,) = earlier.numbers
    earlier.start_again(checkpoints=1, snapshot=f"{earlier.directory}/chk-{highest}")
    newest = earlier.numbers[-1]
    assert earlier.numbers == [highest, newest]
    before = look(cluster, earlier.job_id, earlier.options)
    assert earlier.hand_over(before, tmp_path / "result") == newest + 2


@pytest.mark.slow
def test_job_that_somebody_starts_again_during_the_run_is_left_alone(
    cluster: SessionCluster, earlier: EarlierStart
) -> None:
    """The run has looked at the earlier start, whose checkpoint still has the highest number."""
    jar = RunJar(cluster.address, "counts.jar", "Counts", configuration=earlier.options)
    before = JobToRestart(
        cluster.address, earlier.job_id, "counts", StopMode.CHECKPOINT, str(earlier.directory), 2, jar
    )
    earlier.start_again(checkpoints=1)
    state = TaskState()
    with pytest.raises(TaskEnded, match="from an earlier start of the job"):
        take(before, earlier.job_id, state)
    assert RECORD_KEY not in state
    assert cluster.alive() == {earlier.job_id}


def test_job_whose_checkpoints_would_be_deleted_is_not_cancelled(cluster: SessionCluster) -> None:
    options = native_options(cluster, {})
    job_id = cluster.run(1, options=options)
    wait_until(lambda: has_checkpoint(cluster, job_id), "a checkpoint")
    with pytest.raises(RequestError) as caught:
        look(cluster, job_id, options)
    assert str(caught.value.expected).endswith("RETAIN_ON_CANCELLATION")
    assert "from a savepoint" in str(caught.value.advice)


@pytest.mark.slow
def test_job_without_a_checkpoint_is_not_cancelled(cluster: SessionCluster) -> None:
    """Flink makes the first checkpoint at a random time, so its answer is patched."""
    options = {**native_options(cluster, {}), **RETAINED}
    job_id = cluster.run(1, options=options)
    with (
        patch.object(Flink, "latest_checkpoint_uri", return_value=None),
        pytest.raises(RequestError, match="the job has stored no checkpoint in a directory"),
    ):
        look(cluster, job_id, options)


@pytest.mark.slow
def test_records_in_flight_are_refused_before_the_cancel(cluster: SessionCluster) -> None:
    options = {**native_options(cluster, {}), **RETAINED}
    job_id = run(cluster, options)
    before = look(cluster, job_id, options)
    with (
        patch.object(last_checkpoint, "holds_records_in_flight", return_value=True),
        pytest.raises(TaskEnded, match="the job's checkpoints hold records in flight"),
    ):
        take(before, job_id)
    assert cluster.alive() == {job_id}


def test_checkpoint_deleted_by_flink_is_replaced_by_the_next(tmp_path: Path) -> None:
    tried: list[str] = []

    def use(checkpoint: str) -> str:
        tried.append(checkpoint)
        if len(tried) < 3:
            complete(tmp_path, 5 + len(tried))
            raise SnapshotError("a file is gone")
        return checkpoint

    complete(tmp_path, 5)
    assert last_checkpoint.with_newest_checkpoint(str(tmp_path), use) == f"{tmp_path}/chk-7"
    assert tried == [f"{tmp_path}/chk-{number}" for number in (5, 6, 7)]


def test_error_of_the_newest_checkpoint_is_raised(tmp_path: Path) -> None:
    def use(_: str) -> None:
        raise SnapshotError("a file is damaged")

    complete(tmp_path, 5)
    with pytest.raises(SnapshotError, match="damaged"):
        last_checkpoint.with_newest_checkpoint(str(tmp_path), use)


def complete(checkpoints: Path, number: int) -> None:
    """Make a checkpoint that is complete by its `_metadata`."""
    directory = checkpoints / f"chk-{number}"
    directory.mkdir()
    (directory / "_metadata").touch()
