"""Jobs of a real Flink that are stopped, rescaled and started again by one run each: whatever fails, the job runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from rescale.demo.airflow_home import CONNECTION_ID
from rescale.storage.locations import contains, normalise
from support.airflow_server import AirflowServer, Run
from support.s3 import S3Server
from support.session_cluster import SessionCluster

pytestmark = pytest.mark.slow

DAG_ID = "rescale_job"

FAILING = ("take_savepoint", "plan", "validate")
"""Tasks of each kind between the stop and the start; the first one fails after it has acted."""

TOKEN = "planted-token-of-flink"


class JobRun(NamedTuple):
    """A run, the job that it rescales, and the directory below which it takes the job's savepoint."""

    run: Run
    job_id: str
    savepoints: str


JobRuns = dict[str, JobRun]


@pytest.fixture(scope="module")
def connection(airflow: AirflowServer, cluster: SessionCluster) -> str:
    """Return the id of a connection to Flink with a token."""
    place = urlsplit(cluster.address)
    name = "flink_by_token"
    flink = {"connection_id": name, "conn_type": "http", "host": place.hostname, "port": place.port, "password": TOKEN}
    status, answer = airflow.api("POST", "/connections", flink)
    assert status == 201, answer
    return name


@pytest.fixture(scope="module")
def begin(
    airflow: AirflowServer, cluster: SessionCluster, s3: S3Server, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., JobRun]:
    """Return a function that begins a run with a job of its own. With the policy `fails-T`, task T fails."""
    cluster.clear()
    s3.create_bucket("going-back")
    places = {
        "here": {"savepoints": str(cluster.folder / "savepoints"), "target": str(tmp_path_factory.mktemp("targets"))},
        "s3": {"savepoints": "s3://going-back/savepoints", "target": "s3://going-back", "connection": CONNECTION_ID},
    }

    def begin_run(name: str, where: str = "here", policy: str = "", **conf: Any) -> JobRun:
        job_id = cluster.run(1)
        places_of_it = places[where]
        form = {
            "flink": cluster.address,
            "job": job_id,
            **places_of_it,
            "target": f"{places_of_it['target']}/{name}",
            "parallelism": 2,
            "taking": "stop",
            "hand_over": "jar",
            "jar": cluster.jar,
            "entry_class": "Counts",
        }
        run = airflow.trigger_dag(DAG_ID, {**form, **conf}, dag_run_id=f"{policy or f'fails-{name}'}-{job_id}")
        return JobRun(run, job_id, places_of_it["savepoints"])

    return begin_run


@pytest.fixture(scope="module")
def nothing_fails(begin: Callable[..., JobRun], connection: str) -> JobRun:
    return begin("nothing", flink=connection)


@pytest.fixture(scope="module")
def job_runs(begin: Callable[..., JobRun], nothing_fails: JobRun) -> JobRuns:
    """Begin all runs at once."""
    refused = begin("refused", hand_over="print", jar=None)
    rejected, cancelled = (begin(name, require_approval=True) for name in ("rejected", "cancelled"))
    others = {
        name: begin(name, "s3" if name == "validate" else "here", taking="cancel" if name == "plan" else "stop")
        for name in (*FAILING, "hand_over")
    }
    return {"refused": refused, "rejected": rejected, "cancelled": cancelled, "nothing": nothing_fails, **others}


@pytest.mark.gate
def test_successful_run_ends_with_the_job_in_its_new_shape(nothing_fails: JobRun, cluster: SessionCluster) -> None:
    run, job_id, _ = nothing_fails
    assert run.end() == "success", run.states()
    assert (run.states()["go_back"], run.states()["end"]) == ("skipped", "success")
    handed_over = run.xcom("hand_over")
    assert cluster.job(handed_over["job"]).parallelism == 2
    assert Path(handed_over["restored_from"].removeprefix("file:")) == Path(run.xcom("publish")["target"])
    assert cluster.job(job_id).has_ended


def test_token_of_flink_is_in_no_task_xcom_or_log(nothing_fails: JobRun) -> None:
    run = nothing_fails.run
    run.end()
    for task_id in ("look_at_job", "take_savepoint", "inspect", "plan", "publish", "hand_over"):
        assert TOKEN not in json.dumps([run.task(task_id), run.xcom(task_id), run.log(task_id)])


def is_back(job_run: JobRun, cluster: SessionCluster) -> bool:
    """Return whether the job of a run was started again from its savepoint in its old shape."""
    back = job_run.run.xcom("go_back")
    job = cluster.job(back["job"])
    return (job.runs, job.parallelism) == (True, 1) and contains(job_run.savepoints, normalise(back["restored_from"]))


@pytest.mark.parametrize("task_id", FAILING)
def test_job_runs_again_and_the_run_fails_whichever_task_fails(
    job_runs: JobRuns, cluster: SessionCluster, task_id: str
) -> None:
    job_run = job_runs[task_id]
    assert job_run.run.end() == "failed"
    states = job_run.run.states()
    assert (states[task_id], states["go_back"], states["end"]) == ("failed", "success", "failed"), states
    assert is_back(job_run, cluster)
    log = job_run.run.log_text("end")
    assert "; the job 'counts' runs again" in log
    assert f"failed: {task_id}" in log
    assert "{" not in log
    assert cluster.job(job_run.job_id).has_ended


def test_job_that_was_handed_over_is_left_alone_though_the_run_fails(
    job_runs: JobRuns, cluster: SessionCluster
) -> None:
    """The task fails after the new job has run; going back would repeat what that job has emitted."""
    run, job_id, _ = job_runs["hand_over"]
    assert run.end() == "failed"
    states = run.states()
    assert (states["hand_over"], states["go_back"], states["end"]) == ("failed", "skipped", "failed"), states
    assert "; the job 'counts' was handed over, and is left alone" in run.log_text("end")
    assert cluster.job(job_id).has_ended


def test_rejected_plan_takes_the_job_back_and_leaves_nothing(job_runs: JobRuns, cluster: SessionCluster) -> None:
    job_run = job_runs["rejected"]
    job_run.run.question()
    job_run.run.answer("Reject")
    assert job_run.run.end() == "failed"
    states = job_run.run.states()
    assert (states["approve"], states["rejected"], states["go_back"]) == ("failed", "failed", "success")
    assert is_back(job_run, cluster)


def test_cancelled_run_takes_the_job_back(job_runs: JobRuns, cluster: SessionCluster) -> None:
    job_run = job_runs["cancelled"]
    job_run.run.question()
    job_run.run.cancel()
    assert job_run.run.end() == "failed"
    assert job_run.run.states()["go_back"] == "success"
    assert is_back(job_run, cluster)


def test_job_that_could_not_be_started_again_is_not_stopped(job_runs: JobRuns, cluster: SessionCluster) -> None:
    run, job_id, _ = job_runs["refused"]
    assert run.end() == "failed"
    assert run.states()["look_at_job"] == "failed"
    assert "could not start it again" in run.log_text("look_at_job")
    assert cluster.job(job_id).runs


def test_exactly_one_job_of_each_run_runs_at_the_end(job_runs: JobRuns, cluster: SessionCluster) -> None:
    """Runs that still wait for an answer are cancelled: another worker of pytest may have the tests that answer."""
    for name in ("rejected", "cancelled"):
        if (run := job_runs[name].run).state != "failed":
            run.question()
            run.cancel()
    for job_run in job_runs.values():
        job_run.run.end()
    assert len(cluster.alive()) == len(job_runs)


@pytest.mark.slow
def test_job_that_was_not_stopped_yet_runs_on_after_a_cancelled_run(
    begin: Callable[..., JobRun], cluster: SessionCluster
) -> None:
    run, job_id, _ = begin("early", policy="waits-take_savepoint")
    run.wait_for_task("take_savepoint", "running")
    run.cancel()
    assert run.end() == "failed"
    assert (run.states()["go_back"], run.states()["end"]) == ("skipped", "failed")
    assert "the job was not stopped, and still runs" in run.log_text("go_back")
    assert "; the job 'counts' still runs" in run.log_text("end")
    assert cluster.job(job_id).runs
