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


class Story(NamedTuple):
    """A run, the job that it found, and the directory below which the job's savepoint goes."""

    run: Run
    job_id: str
    savepoints: str


Stories = dict[str, Story]


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
) -> Callable[..., Story]:
    """Return a function that begins a run with a job of its own. With the policy `fails-T`, task T fails."""
    cluster.clear()
    s3.create_bucket("going-back")
    places = {
        "here": {"savepoints": str(cluster.folder / "savepoints"), "target": str(tmp_path_factory.mktemp("targets"))},
        "s3": {"savepoints": "s3://going-back/savepoints", "target": "s3://going-back", "connection": CONNECTION_ID},
    }

    def story(name: str, where: str = "here", policy: str = "", **conf: Any) -> Story:
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
        return Story(run, job_id, places_of_it["savepoints"])

    return story


@pytest.fixture(scope="module")
def nothing_fails(begin: Callable[..., Story], connection: str) -> Story:
    return begin("nothing", flink=connection)


@pytest.fixture(scope="module")
def stories(begin: Callable[..., Story], nothing_fails: Story) -> Stories:
    """Begin all runs at once."""
    refused = begin("refused", hand_over="print", jar=None)
    rejected, cancelled = (begin(name, require_approval=True) for name in ("rejected", "cancelled"))
    others = {
        name: begin(name, "s3" if name == "validate" else "here", taking="cancel" if name == "plan" else "stop")
        for name in (*FAILING, "hand_over")
    }
    return {"refused": refused, "rejected": rejected, "cancelled": cancelled, "nothing": nothing_fails, **others}


@pytest.mark.gate
def test_successful_run_ends_with_the_job_in_its_new_shape(nothing_fails: Story, cluster: SessionCluster) -> None:
    run, job_id, _ = nothing_fails
    assert run.end() == "success", run.states()
    assert (run.states()["go_back"], run.states()["end"]) == ("skipped", "success")
    handed_over = run.xcom("hand_over")
    assert cluster.job(handed_over["job"]).parallelism == 2
    assert Path(handed_over["restored_from"].removeprefix("file:")) == Path(run.xcom("publish")["target"])
    assert cluster.job(job_id).has_ended


def test_token_of_flink_is_in_no_task_xcom_or_log(nothing_fails: Story) -> None:
    run = nothing_fails.run
    run.end()
    for task_id in ("look_at_job", "take_savepoint", "inspect", "plan", "publish", "hand_over"):
        assert TOKEN not in json.dumps([run.task(task_id), run.xcom(task_id), run.log(task_id)])


def is_back(story: Story, cluster: SessionCluster) -> bool:
    """Return whether the job of a story was started again from its savepoint in its old shape."""
    back = story.run.xcom("go_back")
    job = cluster.job(back["job"])
    return (job.runs, job.parallelism) == (True, 1) and contains(story.savepoints, normalise(back["restored_from"]))


@pytest.mark.parametrize("task_id", FAILING)
def test_job_runs_again_and_the_run_fails_whichever_task_fails(
    stories: Stories, cluster: SessionCluster, task_id: str
) -> None:
    story = stories[task_id]
    assert story.run.end() == "failed"
    states = story.run.states()
    assert (states[task_id], states["go_back"], states["end"]) == ("failed", "success", "failed"), states
    assert is_back(story, cluster)
    log = story.run.log_text("end")
    assert "; the job 'counts' runs again" in log
    assert f"failed: {task_id}" in log
    assert "{" not in log
    assert cluster.job(story.job_id).has_ended


def test_job_that_was_handed_over_is_left_alone_though_the_run_fails(stories: Stories, cluster: SessionCluster) -> None:
    """The task fails after the new job has run; going back would repeat what that job has emitted."""
    run, job_id, _ = stories["hand_over"]
    assert run.end() == "failed"
    states = run.states()
    assert (states["hand_over"], states["go_back"], states["end"]) == ("failed", "skipped", "failed"), states
    assert "; the job 'counts' was handed over, and is left alone" in run.log_text("end")
    assert cluster.job(job_id).has_ended


def test_rejected_plan_takes_the_job_back_and_leaves_nothing(stories: Stories, cluster: SessionCluster) -> None:
    story = stories["rejected"]
    story.run.question()
    story.run.answer("Reject")
    assert story.run.end() == "failed"
    states = story.run.states()
    assert (states["approve"], states["rejected"], states["go_back"]) == ("failed", "failed", "success")
    assert is_back(story, cluster)


def test_cancelled_run_takes_the_job_back(stories: Stories, cluster: SessionCluster) -> None:
    story = stories["cancelled"]
    story.run.question()
    story.run.cancel()
    assert story.run.end() == "failed"
    assert story.run.states()["go_back"] == "success"
    assert is_back(story, cluster)


def test_job_that_could_not_be_started_again_is_not_stopped(stories: Stories, cluster: SessionCluster) -> None:
    run, job_id, _ = stories["refused"]
    assert run.end() == "failed"
    assert run.states()["look_at_job"] == "failed"
    assert "could not start it again" in run.log_text("look_at_job")
    assert cluster.job(job_id).runs


def test_exactly_one_job_of_each_story_runs_at_the_end(stories: Stories, cluster: SessionCluster) -> None:
    """All runs must have ended, even those that wait for an answer because their tests are in another share."""
    for name in ("rejected", "cancelled"):
        if (run := stories[name].run).state != "failed":
            run.question()
            run.cancel()
    for story in stories.values():
        story.run.end()
    assert len(cluster.alive()) == len(stories)


@pytest.mark.slow
def test_job_that_was_not_stopped_yet_runs_on_after_a_cancelled_run(
    begin: Callable[..., Story], cluster: SessionCluster
) -> None:
    run, job_id, _ = begin("early", policy="waits-take_savepoint")
    run.wait_for_task("take_savepoint", "running")
    run.cancel()
    assert run.end() == "failed"
    assert (run.states()["go_back"], run.states()["end"]) == ("skipped", "failed")
    assert "the job was not stopped, and still runs" in run.log_text("go_back")
    assert "; the job 'counts' still runs" in run.log_text("end")
    assert cluster.job(job_id).runs
