"""Airflow's database is gone in the middle of runs until all components that need it have ended; then the runs go on.

By default the last component ends after about a minute, here sooner. All are started again when the database is back.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rescale.demo.airflow_home import DAG_ID
from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.runstate.step import Step
from support.airflow_server import AirflowServer, request, wait_for
from support.http_servers import LocalServer, QuietHandler, serving
from support.postgres import PASSWORD, Postgres, postgres
from support.s3 import S3Server
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

NEEDING_DATABASE = {"scheduler", "triggerer", "dag-processor"}
"""Components that end without the database; the api-server stays and answers with errors."""

JOB = "clicks"
_ID = "0123456789abcdef" * 2
_UNKNOWN = {"errors": ["Not found"]}


class SlowFlink(LocalServer):
    """Flink's REST API with a running job, whose savepoint is complete once `savepoint` is set to its path.

    A real Flink completes savepoints of such small state before anybody loses patience.
    """

    savepoint: str | None = None
    begun = False

    def answer(self, path: str) -> dict[str, Any] | None:
        if path.startswith(f"/jobs/{_ID}/savepoints/"):
            operation = None if self.savepoint is None else {"location": self.savepoint}
            return {"operation": operation} if self.begun else None
        source = {"id": _ID, "name": "Source", "parallelism": 4, "maxParallelism": 128, "tasks": {"RUNNING": 4}}
        return {
            "/jobs/overview": {"jobs": [{"jid": _ID, "name": JOB, "state": "RUNNING"}]},
            f"/jobs/{_ID}": {"jid": _ID, "name": JOB, "state": "RUNNING", "vertices": [source]},
            f"/jobs/{_ID}/config": {"execution-config": {"job-parallelism": 4}},
        }.get(path)


class _Handler(QuietHandler):
    server: SlowFlink

    def answer(self) -> None:
        document = self.server.answer(self.path)
        if self.command == "POST":
            self.rfile.read(int(self.headers["Content-Length"]))
            self.server.begun = True
            document = {"request-id": "as it was asked for"}
        self.reply(404 if document is None else 200, json.dumps(_UNKNOWN if document is None else document))


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
    with serving(SlowFlink(_Handler)) as server:
        yield server


def test_runs_that_lose_the_database_go_on(
    airflow: AirflowServer, database: Postgres, flink: SlowFlink, tmp_path: Path
) -> None:
    """The runs are in different phases: moving state, with a task in the triggerer, and waiting for an answer."""
    source, moving, taking, asking = (
        directory("2-clicks"),
        *(tmp_path / name for name in ("moving", "taking", "asking")),
    )
    asking_run = airflow.trigger(**request(source, str(asking), parallelism=3, require_approval=True))
    job = {"flink": flink.address, "job": JOB, "savepoints": str(tmp_path / "savepoints")}
    taken_run = airflow.trigger_dag("rescale_job", {**job, "target": str(taking), "parallelism": 3})
    asking_run.question()
    taken_run.wait_for_task("take_savepoint", "deferred")
    name = f"lingers-reshuffle_keyed_state-{uuid.uuid4()}"
    moved_run = airflow.trigger_dag(DAG_ID, request(source, str(moving), parallelism=3), dag_run_id=name)
    wait_for(lambda: Path(f"{moving}.rescale/result-{Step.RESHUFFLE}.json").exists(), "the first state to be moved")

    database.stop()
    wait_for(lambda: airflow.ended() >= NEEDING_DATABASE, "all to give up")
    assert not (moving / "_metadata").exists()
    flink.savepoint = source
    database.start()

    with airflow.restarted_components():
        asking_run.answer("Reject")
        assert [run.end() for run in (moved_run, taken_run, asking_run)] == ["success", "success", "failed"]
        assert moved_run.task("reshuffle_keyed_state")["try_number"] > 1, "its worker did not end"
        assert taken_run.task("take_savepoint")["try_number"] == 1, "its trigger did not go on"
        _, events = airflow.api("GET", "/assets/events")
    assert sorted(event["extra"]["uri"] for event in events["asset_events"]) == [str(moving), str(taking)]
    for target in (moving, taking):
        assert validate_published(source, str(target), InProcessTasks()).verdict == "complete"
    assert not any(tmp_path.glob("asking*")), "staged files of the rejected run were left"
    logs = [path for path in airflow.home.folder.rglob("*") if path.is_file()]
    assert [path for path in logs if PASSWORD.encode() in path.read_bytes()] == []
