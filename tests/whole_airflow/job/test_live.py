"""Jobs of a real Flink that are rescaled while they run, or stopped after a checkpoint, each by one run of the DAG."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rescale.airflow.live.cut_over_question import CUT_OVER, GIVE_UP
from rescale.airflow.steps.earlier_tasks import ASK_CUT_OVER
from rescale.storage.locations import contains, normalise
from support.airflow_server import AirflowServer, Run, wait_for
from support.session_cluster import ROCKSDB, SessionCluster, has_checkpoint, native_options, wait_until

pytestmark = pytest.mark.slow

_OF_A_STOPPED_JOB = ("take_savepoint", "inspect", "plan", "reshuffle_keyed_state", "validate", "publish", "hand_over")
KEPT = {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}


class Story(NamedTuple):
    """A run, the job that it found, and its target."""

    run: Run
    job_id: str
    target: Path


@pytest.fixture(scope="module")
def begin(
    airflow: AirflowServer, cluster: SessionCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Story]]:
    """Yield a function that begins a run with a job of its own; all have ended before other tests use the cluster."""
    cluster.clear()
    targets, stories = tmp_path_factory.mktemp("targets"), []
    options = {**native_options(cluster, ROCKSDB), **KEPT}

    def story(name: str, **more: Any) -> Story:
        job_id = cluster.run(2, options=options)
        wait_until(lambda: cluster.is_counting(job_id) and has_checkpoint(cluster, job_id), "a checkpoint")
        form = {**cluster.form(job_id, str(targets / name), options), **more}
        run = airflow.trigger_dag("rescale_job", form, dag_run_id=f"{name}-{job_id}")
        stories.append(Story(run, job_id, targets / name))
        return stories[-1]

    yield story
    for begun in stories:
        begun.run.end()
    cluster.clear()


def decide(run: Run, option: str) -> None:
    """Answer the question, and repeat that if it is asked again: Airflow loses an answer with the try that asked."""

    def is_decided() -> bool:
        if run.task(ASK_CUT_OVER)["state"] == "awaiting_input":
            run.answer(option, ASK_CUT_OVER)
        return run.task(ASK_CUT_OVER)["state"] == "success"

    wait_for(is_decided, "the decision", period=10)


def assert_handed_over(cluster: SessionCluster, story: Story, task: str) -> dict[str, Any]:
    assert story.run.end() == "success", story.run.states()
    started: dict[str, Any] = story.run.xcom(task)
    assert contains(str(story.target), normalise(started["restored_from"]))
    vertices = cluster.job(started["job"]).vertices
    assert {(vertex.parallelism, vertex.max_parallelism) for vertex in vertices} == {(3, 256)}
    wait_until(lambda: cluster.is_counting(started["job"]), "the job to go on counting")
    assert cluster.job(story.job_id).has_ended
    assert started["job"] in story.run.log_text("end")
    return started


def test_job_is_cut_over_though_the_following_task_is_killed(
    begin: Callable[..., Story], cluster: SessionCluster
) -> None:
    story = begin("live", while_it_runs=True, cut_over="when approved")
    followed = "follow_and_cut_over"
    wait_for(lambda: "base: checkpoint" in _log(story.run, followed), "the base")
    os.kill(story.run.task(followed)["pid"], signal.SIGKILL)
    assert "newest round" in story.run.question(ASK_CUT_OVER)["body"]
    decided = time.monotonic()
    decide(story.run, CUT_OVER)
    started = assert_handed_over(cluster, story, followed)
    assert story.run.task(followed)["try_number"] >= 2
    assert 0 < started["downtime_seconds"] < time.monotonic() - decided
    states = story.run.states()
    assert {states[task] for task in _OF_A_STOPPED_JOB} == {"skipped"}
    assert (states["compare_all_records"], states["go_back"]) == ("success", "skipped")
    assert story.run.xcom("compare_all_records")["verdict"] == "complete"


def test_cut_over_that_is_given_up_leaves_the_job_alone(begin: Callable[..., Story], cluster: SessionCluster) -> None:
    story = begin("given-up", while_it_runs=True, cut_over="when approved")
    decide(story.run, GIVE_UP)
    assert story.run.end() == "failed"
    assert cluster.job(story.job_id).runs
    assert "still runs" in story.run.log_text("end")
    assert story.run.states()["go_back"] == "skipped"


def test_job_is_rescaled_from_its_last_checkpoint(begin: Callable[..., Story], cluster: SessionCluster) -> None:
    story = begin("checkpoint")
    assert_handed_over(cluster, story, "hand_over")
    assert contains(str(cluster.folder / "checkpoints"), story.run.xcom("take_savepoint")["savepoint"])
    states = story.run.states()
    live = ("follow_and_cut_over", "ask_to_cut_over", "compare_all_records")
    assert {states[task] for task in live} == {"skipped"}


def test_job_whose_rounds_would_move_all_state_is_left_alone(
    begin: Callable[..., Story], cluster: SessionCluster
) -> None:
    story = begin("refused", while_it_runs=True, taking="stop", savepoints=str(cluster.folder))
    assert story.run.end() == "failed"
    assert "is cancelled after a checkpoint" in story.run.log_text("look_at_job")
    assert cluster.job(story.job_id).runs


def _log(run: Run, task: str) -> str:
    return "\n".join(line["event"] for line in run.log(task, or_none=True))
