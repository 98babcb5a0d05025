"""Files of a running job's checkpoints are copied ahead on a real session cluster, and the others after its stop."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from rescale.airflow.flink.inspection import inspect_job
from rescale.airflow.flink.last_checkpoint import take_checkpoint
from rescale.airflow.flink.operators import HandOverJob
from rescale.airflow.flink.stopping import JobToRestart
from rescale.airflow.hand_overs import RunJar
from rescale.airflow.job.job_operators import TakeSavepoint
from rescale.airflow.job.job_tasks import _check_places
from rescale.airflow.job.prepare_task import _prepare
from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink_rest.client import StopMode
from rescale.following.follower import Follower
from rescale.following.round_plan import RoundPlan
from rescale.planning.request.request import make_request
from rescale.runstate.places import is_prepared_file
from rescale.runstate.preparation import is_prepared
from support.deferring import TaskState, run_operator, shared_by_the_run
from support.filled_forms import filled_of_job
from support.live_story import LiveStory
from support.pipeline import execute_without_spark, plan_rescale
from support.session_cluster import ROCKSDB, SMALL_FILES, SessionCluster, has_checkpoint, native_options, wait_until

KEYS, VALUE_SIZE, RATE = "60000", "500", "1000"
LOADED = 20_000
"""Number of records after which each of the two subtasks has written every key of its split once."""

MAIN = "Bulk"


class Story:
    """A job with many files that are too large for `_metadata`, and a run that keeps its max parallelism."""

    def __init__(self, cluster: SessionCluster, target: Path) -> None:
        retention = {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}
        options = {**native_options(cluster, ROCKSDB), **SMALL_FILES, **retention}
        self.cluster, self.target = cluster, target
        self.job_id = cluster.run(2, KEYS, VALUE_SIZE, RATE, main=MAIN, options=options)
        wait_until(lambda: cluster.records_read(self.job_id) >= LOADED, "the job to write all keys")
        with cluster.open() as flink:
            take_checkpoint(flink, self.job_id)
        wait_until(lambda: has_checkpoint(cluster, self.job_id), "Flink to tell of the checkpoint")
        self.jar = RunJar(cluster.address, "counts.jar", MAIN, (KEYS, VALUE_SIZE, RATE), options)
        self.before: JobToRestart = inspect_job(cluster.address, self.job_id, StopMode.CHECKPOINT, None, self.jar)

    def prepare(self, **form: Any) -> Any:
        fields = {"flink": self.cluster.address, "job": self.job_id, "jar": "counts.jar", "target": str(self.target)}
        params = filled_of_job(**fields, taking=StopMode.CHECKPOINT.value, **{"parallelism": 3, **form})
        instance = SimpleNamespace(dag_id="a-dag", run_id="a-run")
        look_output = {"before": msgspec.to_builtins(self.before)}
        with shared_by_the_run(TaskState()):
            return _prepare(None, look_output, params, instance)

    def times(self) -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in self.target.iterdir() if is_prepared_file(path.name)}


def test_files_copied_before_the_stop_are_not_copied_again(cluster: SessionCluster, tmp_path: Path) -> None:
    story = Story(cluster, tmp_path / "result")
    first = story.prepare()
    assert first["files"] > 0
    assert cluster.alive() == {story.job_id}, "the job runs on"
    _check_places(make_request(story.before.directory, str(story.target), ["3"]))
    copied = story.times()
    taken = run_operator(TakeSavepoint(task_id="take", old_job_document=msgspec.to_builtins(story.before)), "a-run")
    plan = plan_rescale(taken["savepoint"], str(story.target), ["3"])
    assert plan.prepared
    execute_without_spark(plan)
    assert copied.items() & story.times().items(), "nothing that was copied ahead is in the result"
    arguments = {"old_job_document": msgspec.to_builtins(story.before), "start": plan.start._asdict()}
    started = run_operator(HandOverJob(task_id="hand_over", **arguments), "a-run")
    assert {vertex.parallelism for vertex in cluster.job(started["job"]).vertices} == {3}
    wait_until(lambda: cluster.is_counting(started["job"]), "the job to go on counting")
    assert cluster.alive() == {started["job"]}


@pytest.mark.parametrize("form", [{"max_parallelism": 1000}, {"files": "refer"}, {"while_it_runs": True}])
def test_results_without_unchanged_files_copy_nothing_ahead(
    cluster: SessionCluster, tmp_path: Path, form: dict[str, Any]
) -> None:
    story = Story(cluster, tmp_path / "result")
    assert story.prepare(**form)["files"] == 0
    assert not is_prepared(str(story.target))


@pytest.mark.slow
def test_a_job_is_cut_over_to_files_that_were_copied_ahead(cluster: SessionCluster, tmp_path: Path) -> None:
    story = Story(cluster, tmp_path / "result")
    live = LiveStory(cluster, story.job_id, story.jar, str(story.target), parallelism=3)
    summary = live.follow()
    assert live.shapes(summary["job"]) == {(3, 128)}
    wait_until(lambda: cluster.is_counting(summary["job"]), "the job to go on counting")
    assert cluster.alive() == {summary["job"]}
    assert story.times(), "files are copied"
    assert is_prepared(str(story.target))
    assert not Path(f"{story.target}.rescale/follower.json").exists()
    assert validate_published(summary["source"], str(story.target), InProcessTasks(2, None)).verdict == "complete"


@pytest.mark.slow
def test_checkpoint_made_during_the_cut_over_removes_no_copied_file(
    cluster: SessionCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result of the older checkpoint is discarded; all that was copied for it stays for the next one."""
    story = Story(cluster, tmp_path / "result")
    live = LiveStory(cluster, story.job_id, story.jar, str(story.target), parallelism=3)
    move_last, before, after = Follower.move_last, list[dict[str, int]](), list[dict[str, int]]()

    def checkpoint_behind(follower: Follower, planned: RoundPlan) -> None:
        before.append(story.times())
        try:
            move_last(follower, planned)
        finally:
            after.append(story.times())
        if len(after) == 1:
            with cluster.open() as flink:
                take_checkpoint(flink, story.job_id)

    monkeypatch.setattr(Follower, "move_last", checkpoint_behind)
    summary = live.follow()
    assert after[0]
    assert before[1] == after[0]
    wait_until(lambda: cluster.is_counting(summary["job"]), "the job to go on counting")
    assert cluster.alive() == {summary["job"]}
    assert validate_published(summary["source"], str(story.target), InProcessTasks(2, None)).verdict == "complete"
