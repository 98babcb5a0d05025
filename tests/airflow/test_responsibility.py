"""Who sees, triggers and approves: Airflow's roles under its simple auth manager, and a second pair of eyes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from rescale.demo.airflow_home import DAG_ID
from support.airflow_server import AirflowServer, Run, request, wait_for
from support.s3 import S3Server
from support.snapshots import directory
from support.whole_airflow import ROLES, airflow_server

pytestmark = pytest.mark.timeout(900)

SETTINGS = """
tasks: {{owner: platform, priority_weight: 7, timeout_minutes: 60}}
tags: [team]
form: {{require_approval: true}}
approval: {{users: [ada, grace], four_eyes: true}}
notify:
  waiting: [{{notifier: support.told.Told, arguments: {{what: waiting, path: "{folder}/told"}}}}]
  failed: [{{notifier: support.told.Told, arguments: {{what: failed, path: "{folder}/told"}}}}]
"""


@pytest.fixture(scope="module")
def platform(s3: S3Server) -> Iterator[AirflowServer]:
    """An Airflow of its own, whose platform has these settings."""
    with airflow_server(s3, SETTINGS) as server:
        yield server


def asked(platform: AirflowServer, target: Path) -> Run:
    """A run of ada's, whose steps work without Spark, that waits for an answer: the settings have it ask."""
    conf = request(directory("2-clicks"), str(target), parallelism=3)
    run = platform.as_user("ada").trigger_dag(DAG_ID, conf, dag_run_id=f"fails-nothing-{uuid.uuid4()}")
    run.question()
    return run


def told(platform: AirflowServer) -> list[str]:
    return (platform.home.folder.parent / "told").read_text().splitlines()


def test_what_each_role_may_do(airflow: AirflowServer) -> None:
    may: dict[str, tuple[bool, ...]] = {}
    conf = request("/nothing/there", "/rescaled", parallelism=2)
    for name in ROLES:
        server = airflow.as_user(name)
        asks = (
            server.api("GET", f"/dags/{DAG_ID}")[0],
            server.try_to_trigger(**conf)[0],
            server.api("GET", "/connections")[0],
            server.api("POST", "/connections", {"connection_id": f"of_{name}", "conn_type": "aws"})[0],
        )
        may[name] = tuple(status < 300 for status in asks)
    assert may == {
        "vera": (True, False, False, False),  # sees
        "ada": (True, True, False, False),  # triggers, cancels, clears, answers
        "grace": (True, True, False, False),
        "olga": (True, True, True, True),  # and keeps connections
    }


@pytest.mark.slow
def test_who_triggered_a_run_does_not_approve_it(platform: AirflowServer, tmp_path: Path) -> None:
    run = asked(platform, tmp_path / "rescaled")
    _, task = platform.api("GET", f"/dags/{DAG_ID}/tasks/plan")
    assert (task["owner"], task["priority_weight"]) == ("platform", 7)
    for name in ("ada", "vera", "olga"):
        assert run.by(name).try_to_answer("Approve")[0] == 403
    assert f"waiting {run.run_id}" in told(platform)
    run.by("grace").answer("Approve")
    assert run.end() == "success", run.states()
    assert "approved by grace" in run.told("approve")
    assert f"failed {run.run_id}" not in told(platform)


@pytest.mark.slow
def test_who_asked_to_be_told_hears_of_a_run_that_went_red(platform: AirflowServer, tmp_path: Path) -> None:
    run = asked(platform, tmp_path / "rescaled")
    run.by("grace").answer("Reject")
    assert run.end() == "failed"
    assert "rejected by grace" in run.told("rejected")
    wait_for(lambda: f"failed {run.run_id}" in told(platform), "the notifier", 60)
