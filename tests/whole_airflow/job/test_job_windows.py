"""Windows of a running job with savepoints in S3: scaled in at night and out in the morning, but not without need."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest

from support.airflow_server import AirflowServer, Run
from support.s3 import S3Server
from support.session_cluster import SessionCluster, wait_until

pytestmark = pytest.mark.slow

_JOB = "clicks"


@pytest.fixture(scope="module")
def job_id(airflow: AirflowServer, cluster: SessionCluster, s3: S3Server) -> str:
    """Return the only job, in its shape of the morning, after making the connection and the bucket of the windows."""
    s3.create_bucket("windows")
    place = urlsplit(cluster.address)
    connection = {"connection_id": "session", "conn_type": "http", "host": place.hostname, "port": place.port}
    assert airflow.api("POST", "/connections", connection)[0] == 201
    cluster.clear()
    return cluster.run(2, "0", _JOB)


@pytest.fixture(scope="module")
def two_runs(airflow: AirflowServer, job_id: str) -> tuple[Run, Run]:  # noqa: ARG001
    """Return a run of each of the two windows; the second began after the first had ended."""
    back = trigger_window(airflow, "clicks-back")
    assert back.end() == "success", back.states()
    out = trigger_window(airflow, "clicks-out")
    assert out.end() == "success", out.states()
    return back, out


def trigger_window(airflow: AirflowServer, window: str, **more: Any) -> Run:
    """Trigger a run of a window, whose steps work without Spark."""
    run_id = f"fails-nothing-{window}-{datetime.now(UTC).isoformat()}"
    return airflow.trigger_dag(f"rescale_{window}", {"outside_hours": True}, dag_run_id=run_id, **more)


def test_two_windows_take_the_job_back_and_out_with_its_state(
    two_runs: tuple[Run, Run], cluster: SessionCluster, job_id: str
) -> None:
    before = job_id
    for run, window, parallelism in zip(two_runs, ("clicks-back", "clicks-out"), (1, 2), strict=True):
        taken, started = run.xcom("take_savepoint"), run.xcom("hand_over")
        assert taken["job"] == before
        assert taken["savepoint"].startswith("s3://windows/savepoints/rescale-")
        assert started["restored_from"] == run.xcom("publish")["target"]
        assert started["restored_from"].startswith(f"s3://windows/rescaled/{window}-")
        assert cluster.job(before).state == "FINISHED"
        assert {vertex.parallelism for vertex in cluster.job(started["job"]).vertices} == {parallelism}
        before = started["job"]
    assert cluster.alive(_JOB) == {before}
    wait_until(lambda: cluster.is_counting(before), "the job to go on counting")


def test_job_that_already_has_the_shape_is_not_stopped(
    airflow: AirflowServer, two_runs: tuple[Run, Run], cluster: SessionCluster
) -> None:
    (alive,) = cluster.alive(_JOB)
    run = trigger_window(airflow, "clicks-out")
    assert run.end() == "success", run.states()
    assert {task: state for task, state in run.states().items() if state != "skipped"} == {"open_window": "success"}
    assert f"nothing to do: the job 'clicks' ({alive}) already has the requested shape" in run.log_text("look_at_job")
    assert two_runs[1].xcom("hand_over")["job"] == alive
    assert cluster.alive(_JOB) == {alive}


def test_job_is_left_alone_after_closing_time(
    airflow: AirflowServer, two_runs: tuple[Run, Run], cluster: SessionCluster
) -> None:
    run = trigger_window(airflow, "clicks-back", run_after=(datetime.now(UTC) - timedelta(days=2)).isoformat())
    assert run.end() == "success", run.states()
    assert set(run.states().values()) == {"skipped"}
    assert cluster.alive(_JOB) == {two_runs[1].xcom("hand_over")["job"]}
