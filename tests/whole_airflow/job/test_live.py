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
from rescale.airflow.steps.earlier_tasks import ASK_CUT_OVER_TASK
from rescale.storage.locations import contains, normalise
from support.airflow_server import AirflowServer, Run, wait_for
from support.session_cluster import ROCKSDB, SessionCluster, has_checkpoint, native_options, wait_until

pytestmark = pytest.mark.slow

_TASKS_OF_A_STOPPED_JOB = (
    "take_savepoint",
    "inspect",
    "plan",
    "reshuffle_keyed_state",
    "validate",
    "publish",
    "hand_over",
)
RETAINED = {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}


class JobRun(NamedTuple):
    """A run, the job that it rescales, and its target."""

    run: Run
    job_id: str
    target: Path


@pytest.fixture(scope="module")
def begin(
    airflow: AirflowServer, cluster: SessionCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., JobRun]]:
    """Yield a function that begins a run with a job of its own; all have ended before other tests use the cluster."""
    cluster.clear()
    targets, job_runs = tmp_path_factory.mktemp("targets"), []
    options = {**native_options(cluster, ROCKSDB), **RETAINED}

    def begin_run(name: str, **more: Any) -> JobRun:
        job_id = cluster.run(2, options=options)
        wait_until(lambda: cluster.is_counting(job_id) and has_checkpoint(cluster, job_id), "a checkpoint")
        form = {**cluster.form(job_id, str(targets / name), options), **more}
        run = airflow.trigger_dag("rescale_job", form, dag_run_id=f"{name}-{job_id}")
        job_runs.append(JobRun(run, job_id, targets / name))
        return job_runs[-1]

    yield begin_run
    for job_run in job_runs:
        job_run.run.end()
    cluster.clear()


def decide(run: Run, option: str) -> None:
    """Answer the question, and repeat that if it is asked again: Airflow loses an answer with the try that asked."""

    def is_decided() -> bool:
        if run.task(ASK_CUT_OVER_TASK)["state"] == "awaiting_input":
            run.answer(option, ASK_CUT_OVER_TASK)
        return run.task(ASK_CUT_OVER_TASK)["state"] == "success"

    wait_for(is_decided, "the decision", period=10)


def assert_handed_over(cluster: SessionCluster, job_run: JobRun, task: str) -> dict[str, Any]:
    assert job_run.run.end() == "success", job_run.run.states()
    started: dict[str, Any] = job_run.run.xcom(task)
    assert contains(str(job_run.target), normalise(started["restored_from"]))
    vertices = cluster.job(started["job"]).vertices
    assert {(vertex.parallelism, vertex.max_parallelism) for vertex in vertices} == {(3, 256)}
    wait_until(lambda: cluster.is_counting(started["job"]), "the job to go on counting")
    assert cluster.job(job_run.job_id).has_ended
    assert started["job"] in job_run.run.log_text("end")
    return started


def test_job_is_cut_over_though_the_following_task_is_killed(
    begin: Callable[..., JobRun], cluster: SessionCluster
) -> None:
    job_run = begin("live", while_it_runs=True, cut_over="when approved")
    task_id = "follow_and_cut_over"
    wait_for(lambda: "base: checkpoint" in _log(job_run.run, task_id), "the base")
    os.kill(job_run.run.task(task_id)["pid"], signal.SIGKILL)
    assert "newest round" in job_run.run.question(ASK_CUT_OVER_TASK)["body"]
    decided = time.monotonic()
    decide(job_run.run, CUT_OVER)
    started = assert_handed_over(cluster, job_run, task_id)
    assert job_run.run.task(task_id)["try_number"] >= 2
    assert 0 < started["downtime_seconds"] < time.monotonic() - decided
    states = job_run.run.states()
    assert {states[task] for task in _TASKS_OF_A_STOPPED_JOB} == {"skipped"}
    assert (states["compare_all_records"], states["go_back"]) == ("success", "skipped")
    assert job_run.run.xcom("compare_all_records")["verdict"] == "complete"


def test_cut_over_that_is_given_up_leaves_the_job_alone(begin: Callable[..., JobRun], cluster: SessionCluster) -> None:
    job_run = begin("given-up", while_it_runs=True, cut_over="when approved")
    decide(job_run.run, GIVE_UP)
    assert job_run.run.end() == "failed"
    assert cluster.job(job_run.job_id).runs
    assert "still runs" in job_run.run.log_text("end")
    assert job_run.run.states()["go_back"] == "skipped"


def test_job_is_rescaled_from_its_last_checkpoint(begin: Callable[..., JobRun], cluster: SessionCluster) -> None:
    job_run = begin("checkpoint")
    assert_handed_over(cluster, job_run, "hand_over")
    assert contains(str(cluster.folder / "checkpoints"), job_run.run.xcom("take_savepoint")["savepoint"])
    states = job_run.run.states()
    live = ("follow_and_cut_over", "ask_to_cut_over", "compare_all_records")
    assert {states[task] for task in live} == {"skipped"}


def test_job_whose_rounds_would_move_all_state_is_left_alone(
    begin: Callable[..., JobRun], cluster: SessionCluster
) -> None:
    job_run = begin("refused", while_it_runs=True, taking="stop", savepoints=str(cluster.folder))
    assert job_run.run.end() == "failed"
    assert "is cancelled after a checkpoint" in job_run.run.log_text("look_at_job")
    assert cluster.job(job_run.job_id).runs


def _log(run: Run, task: str) -> str:
    return "\n".join(line["event"] for line in run.log(task, or_none=True))
