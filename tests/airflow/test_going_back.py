"""Jobs of a real Flink that are stopped, rescaled and started again, by one run each: whatever fails, the job runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from flink.distribution import LINES
from support.airflow_server import AirflowServer, Run
from support.needs import need
from support.session_cluster import SessionCluster, session_cluster

pytestmark = pytest.mark.timeout(900)

DAG_ID = "rescale_job"

FAILING = (
    "take_savepoint",
    "inspect",
    "plan",
    "approve",
    "reshuffle_keyed_state",
    "redistribute_operator_state",
    "validate",
    "publish",
    "hand_over",
)
"""Every task after the stop; the first and the last fail when they have acted."""

_PATIENCE_SECONDS = 600

TOKEN = "planted-token-of-flink"


class Story(NamedTuple):
    """A run, and the job that it found."""

    run: Run
    job_id: str


Stories = dict[str, Story]


@pytest.fixture(scope="module")
def cluster() -> Iterator[SessionCluster]:
    need("javac", "the job of these tests is compiled for real Flink (a JDK 17)")
    with session_cluster(list(LINES.values())[-1]) as running:
        yield running


@pytest.fixture(scope="module")
def connection(airflow: AirflowServer, cluster: SessionCluster) -> str:
    """To Flink, with a token."""
    place = urlsplit(cluster.address)
    name = "flink_by_token"
    flink = {"connection_id": name, "conn_type": "http", "host": place.hostname, "port": place.port, "password": TOKEN}
    status, told = airflow.api("POST", "/connections", flink)
    assert status == 201, told
    return name


@pytest.fixture(scope="module")
def stories(
    airflow: AirflowServer, cluster: SessionCluster, connection: str, tmp_path_factory: pytest.TempPathFactory
) -> Stories:
    """Runs with a job each, all at once. `fails-T-` makes the task T fail."""
    targets = tmp_path_factory.mktemp("targets")

    def begin(name: str, **conf: Any) -> Story:
        job_id = cluster.run(1)
        form = {
            "flink": cluster.address,
            "job": job_id,
            "savepoints": str(cluster.folder / "savepoints"),
            "target": str(targets / name),
            "parallelism": 2,
            "taking": "stop",
            "hand_over": "jar",
            "jar": cluster.jar,
            "entry_class": "Counts",
        }
        run = airflow.trigger_dag(DAG_ID, {**form, **conf}, dag_run_id=f"fails-{name}-{job_id}")
        return Story(run, job_id)

    refused = begin("refused", hand_over="print", jar=None)
    rejected, cancelled = (begin(name, require_approval=True) for name in ("rejected", "cancelled"))
    others = {name: begin(name, taking="cancel" if name == "plan" else "stop") for name in FAILING}
    nothing = begin("nothing", flink=connection)
    return {"refused": refused, "rejected": rejected, "cancelled": cancelled, "nothing": nothing, **others}


def test_what_goes_right_ends_at_the_new_shape(stories: Stories, cluster: SessionCluster) -> None:
    run, job_id = stories["nothing"]
    assert run.end(_PATIENCE_SECONDS) == "success", run.states()
    assert (run.states()["go_back"], run.states()["end"]) == ("skipped", "success")
    handed_over = run.xcom("hand_over")
    assert cluster.job(handed_over["job"]).parallelism == 2
    assert Path(handed_over["restored_from"].removeprefix("file:")) == Path(run.xcom("publish")["target"])
    assert cluster.job(job_id).ended


def test_a_token_of_flink_is_nowhere_to_be_seen(stories: Stories) -> None:
    run = stories["nothing"].run
    run.end(_PATIENCE_SECONDS)
    for task_id in ("look_at_job", "take_savepoint", "inspect", "plan", "publish", "hand_over"):
        assert TOKEN not in json.dumps([run.task(task_id), run.xcom(task_id), run.log(task_id)])


def is_back(story: Story, cluster: SessionCluster) -> bool:
    """Whether the job of a story was started again from its savepoint at its old shape."""
    back = story.run.xcom("go_back")
    own = cluster.folder / "savepoints"
    job = cluster.job(back["job"])
    return (job.runs, job.parallelism) == (True, 1) and Path(
        back["restored_from"].removeprefix("file:")
    ).is_relative_to(own)


@pytest.mark.parametrize("task_id", FAILING)
def test_whatever_fails_the_job_runs_again_and_the_run_is_red(
    stories: Stories, cluster: SessionCluster, task_id: str
) -> None:
    story = stories[task_id]
    assert story.run.end(_PATIENCE_SECONDS) == "failed"
    states = story.run.states()
    assert (states[task_id], states["go_back"], states["end"]) == ("failed", "success", "failed"), states
    assert is_back(story, cluster)
    assert "was not rescaled; it runs again" in story.run.told("end")
    assert cluster.job(story.job_id).ended


def test_a_rejected_plan_takes_the_job_back_and_leaves_nothing(stories: Stories, cluster: SessionCluster) -> None:
    story = stories["rejected"]
    story.run.question()
    story.run.answer("Reject")
    assert story.run.end(_PATIENCE_SECONDS) == "failed"
    states = story.run.states()
    assert (states["approve"], states["discard"], states["go_back"]) == ("success", "success", "success")
    assert is_back(story, cluster)


def test_a_run_that_is_cancelled_takes_the_job_back(stories: Stories, cluster: SessionCluster) -> None:
    story = stories["cancelled"]
    story.run.question()
    story.run.cancel()
    assert story.run.end(_PATIENCE_SECONDS) == "failed"
    assert story.run.states()["go_back"] == "success"
    assert is_back(story, cluster)


def test_nothing_is_stopped_that_could_not_be_started_again(stories: Stories, cluster: SessionCluster) -> None:
    run, job_id = stories["refused"]
    assert run.end(_PATIENCE_SECONDS) == "failed"
    assert run.states()["look_at_job"] == "failed"
    assert "nothing could start the job again" in run.told("look_at_job")
    assert cluster.job(job_id).runs


def test_of_every_job_one_runs(stories: Stories, cluster: SessionCluster) -> None:
    assert len(cluster.alive()) == len(stories)
