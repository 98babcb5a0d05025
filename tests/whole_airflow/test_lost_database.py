"""Airflow's database is gone in the middle of runs until all components give up: when it is back, the runs publish.

With default settings the last component gives up after about a minute. Here they have less patience, and the database
is gone until all have given up; a platform starts them again.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from rescale.demo.airflow_home import DAG_ID
from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.runstate.step import Step
from support.airflow_server import AirflowServer, request, wait_for
from support.postgres import PASSWORD, Postgres, postgres
from support.s3 import S3Server
from support.slow_flink import JOB, SlowFlink, slow_flink
from support.snapshots import directory
from support.whole_airflow import airflow_server

pytestmark = pytest.mark.slow

IMPATIENCE = {
    "AIRFLOW__DATABASE__MAX_DB_RETRIES": "1",
    "AIRFLOW__WORKERS__EXECUTION_API_RETRIES": "3",
    "AIRFLOW__WORKERS__EXECUTION_API_RETRY_WAIT_MAX": "2",
    "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "5",
    "AIRFLOW__WORKERS__MAX_FAILED_HEARTBEATS": "3",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
}

STORED = {"scheduler", "triggerer", "dag-processor"}
"""Components that end without the database; the api-server stays and answers with errors."""


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with postgres() as server:
        yield server


@pytest.fixture(scope="module")
def airflow(s3: S3Server, database: Postgres) -> Iterator[AirflowServer]:
    with airflow_server(s3, AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=database.url, **IMPATIENCE) as server:
        yield server


@pytest.fixture
def flink() -> Iterator[SlowFlink]:
    with slow_flink() as server:
        yield server


def test_runs_that_lose_the_database_go_on(
    airflow: AirflowServer, database: Postgres, flink: SlowFlink, tmp_path: Path
) -> None:
    """The runs are in different phases: moving state, with a task in the triggerer, and waiting for an answer."""
    source, moving, taking, asking = (
        directory("2-clicks"),
        *(tmp_path / name for name in ("moving", "taking", "asking")),
    )
    asked = airflow.trigger(**request(source, str(asking), parallelism=3, require_approval=True))
    job = {"flink": flink.address, "job": JOB, "savepoints": str(tmp_path / "savepoints")}
    taken = airflow.trigger_dag("rescale_job", {**job, "target": str(taking), "parallelism": 3})
    asked.question()
    taken.wait_for_task("take_savepoint", "deferred")
    name = f"lingers-reshuffle_keyed_state-{uuid.uuid4()}"
    moved = airflow.trigger_dag(DAG_ID, request(source, str(moving), parallelism=3), dag_run_id=name)
    wait_for(lambda: Path(f"{moving}.rescale/result-{Step.RESHUFFLE}.json").exists(), "the first state to be moved")

    database.stop()
    wait_for(lambda: airflow.ended() >= STORED, "all to give up")
    assert not (moving / "_metadata").exists()
    flink.savepoint = source
    database.start()

    with airflow.ended_started_again():
        asked.answer("Reject")
        assert [run.end() for run in (moved, taken, asked)] == ["success", "success", "failed"]
        assert moved.task("reshuffle_keyed_state")["try_number"] > 1, "its worker did not end"
        assert taken.task("take_savepoint")["try_number"] == 1, "its trigger did not go on"
        _, events = airflow.api("GET", "/assets/events")
    assert sorted(event["extra"]["uri"] for event in events["asset_events"]) == [str(moving), str(taking)]
    for target in (moving, taking):
        assert validate_published(source, str(target), InProcessTasks()).verdict == "complete"
    assert not any(tmp_path.glob("asking*")), "staged files of the rejected run were left"
    logs = [path for path in airflow.home.folder.rglob("*") if path.is_file()]
    assert [path for path in logs if PASSWORD.encode() in path.read_bytes()] == []
