"""Rights to see, trigger and approve under Airflow's simple auth manager, and the four-eyes rule."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from rescale.demo.airflow_home import DAG_ID
from support.airflow_server import AirflowServer, Run, request, wait_for
from support.session_cluster import SessionCluster
from support.snapshots import directory
from support.whole_airflow import ROLES, platform_with

SETTINGS = """
tasks: {{owner: platform, priority_weight: 7, timeout_minutes: 60}}
tags: [team]
form: {{require_approval: true}}
approval: {{users: [ada, grace], four_eyes: true, remind_minutes: 9.5}}
notify:
  waiting:
    - {{notifier: whole_airflow.notifiers.FileNotifier, arguments: {{what: nobody, path: "{folder}/nothing/there"}}}}
    - {{notifier: whole_airflow.notifiers.FileNotifier, arguments: {{what: waiting, path: "{folder}/notices"}}}}
  expiring:
    - {{notifier: whole_airflow.notifiers.FileNotifier, arguments: {{what: expiring, path: "{folder}/notices"}}}}
  failed: [{{notifier: whole_airflow.notifiers.FileNotifier, arguments: {{what: failed, path: "{folder}/notices"}}}}]
  back: [{{notifier: whole_airflow.notifiers.FileNotifier, arguments: {{what: back, path: "{folder}/notices"}}}}]
"""


@pytest.fixture(scope="module")
def platform(airflow: AirflowServer) -> Iterator[AirflowServer]:
    """Yield the Airflow with `SETTINGS` until the last test of this file has ended."""
    with platform_with(airflow, SETTINGS):
        yield airflow


def trigger_and_wait(platform: AirflowServer, target: Path, **more: Any) -> Run:
    """Trigger a run as the user ada, and wait for its question; the run's steps work without Spark."""
    conf = request(directory("2-clicks"), str(target), parallelism=3, **more)
    run = platform.as_user("ada").trigger_dag(DAG_ID, conf, dag_run_id=f"fails-nothing-{uuid.uuid4()}")
    run.question()
    return run


@pytest.fixture
def anybody_may_answer(platform: AirflowServer) -> Iterator[None]:
    """Remove the users who may answer from the settings during a test; every task reads the settings again."""
    file = platform.home.folder.parent / "settings.yaml"
    text = file.read_text()
    assert "users: [ada, grace], " in text
    file.write_text(text.replace("users: [ada, grace], ", ""))
    yield
    file.write_text(text)


def notices(platform: AirflowServer) -> list[str]:
    return (platform.home.folder.parent / "notices").read_text().splitlines()


_DAG = f"/dags/{DAG_ID}"
_CONF = request("/nothing/there", "/rescaled", parallelism=2)
_ANSWER = {"chosen_options": ["Approve"], "params_input": {}}

REQUESTS: dict[str, tuple[str, str, Any]] = {
    "see": ("GET", f"{_DAG}/dagRuns", None),
    "trigger": ("POST", f"{_DAG}/dagRuns", {"logical_date": None, "conf": _CONF}),
    "cancel": ("PATCH", f"{_DAG}/dagRuns/{{run}}", {"state": "failed"}),
    "clear": ("POST", f"{_DAG}/dagRuns/{{run}}/clear", {"dry_run": True}),
    "answer": ("PATCH", f"{_DAG}/dagRuns/{{run}}/taskInstances/approve/-1/hitlDetails", _ANSWER),
    "pause": ("PATCH", _DAG, {"is_paused": False}),
    "see connections": ("GET", "/connections", None),
    "make connections": ("POST", "/connections", {"connection_id": "of_{user}", "conn_type": "aws"}),
    "make pools": ("POST", "/pools", {"name": "of_{user}", "slots": 1}),
}
"""Requests to Airflow's REST API by action of a user: method, path, document."""


@pytest.mark.slow
def test_each_role_has_its_rights(airflow: AirflowServer) -> None:
    run = airflow.trigger(**_CONF)

    def may(user: str, method: str, path: str, document: Any) -> bool:
        filled_document = json.loads(json.dumps(document).replace("{user}", user))
        status, _ = airflow.as_user(user).api(method, path.replace("{run}", quote(run.run_id)), filled_document)
        return status != 403

    works = {"see", "trigger", "cancel", "clear", "answer", "pause"}
    assert {user: {action for action, parts in REQUESTS.items() if may(user, *parts)} for user in ROLES} == {
        "vera": {"see"},
        "ada": works,
        "grace": works,
        "olga": {*REQUESTS},
    }


@pytest.mark.slow
def test_user_who_triggered_a_run_cannot_approve_it(platform: AirflowServer, tmp_path: Path) -> None:
    run = trigger_and_wait(platform, tmp_path / "rescaled")
    _, task = platform.api("GET", f"/dags/{DAG_ID}/tasks/plan")
    assert (task["owner"], task["priority_weight"]) == ("platform", 7)
    for name in ("ada", "vera", "olga"):
        assert run.by(name).try_to_answer("Approve")[0] == 403
    assert f"waiting {run.run_id}" in notices(platform)
    run.by("grace").answer("Approve")
    assert run.end() == "success", run.states()
    assert "approved by grace" in run.log_text("approve")
    assert f"failed {run.run_id}" not in notices(platform)
    assert "the notifier FileNotifier failed: [Errno 2] No such file or directory" in run.log_text("approve")


@pytest.mark.slow
@pytest.mark.usefixtures("anybody_may_answer")
def test_answer_of_the_triggering_user_is_ignored_if_anybody_may_answer(
    platform: AirflowServer, tmp_path: Path
) -> None:
    run = trigger_and_wait(platform, tmp_path / "rescaled")
    run.by("ada").answer("Approve")
    wait_for(lambda: "may not approve its plan: asking again" in run.log_text("approve"), "the second question")
    run.question()
    run.by("olga").answer("Approve")
    assert run.end() == "success", run.states()
    assert "approved by olga" in run.log_text("approve")


@pytest.mark.slow
def test_notifier_is_called_for_a_failed_run(platform: AirflowServer, tmp_path: Path) -> None:
    run = trigger_and_wait(platform, tmp_path / "rescaled")
    run.by("grace").answer("Reject")
    assert run.end() == "failed"
    assert "rejected by grace" in run.log_text("rejected")
    wait_for(lambda: f"failed {run.run_id}" in notices(platform), "the notifier")


@pytest.mark.slow
def test_notifier_is_called_for_a_job_that_went_back(
    platform: AirflowServer, cluster: SessionCluster, tmp_path: Path
) -> None:
    flink = {"flink": cluster.address, "job": cluster.run(1), "savepoints": str(cluster.folder / "savepoints")}
    start = {"taking": "stop", "hand_over": "jar", "jar": cluster.jar, "entry_class": "Counts"}
    conf = {**flink, **start, "target": str(tmp_path / "rescaled"), "parallelism": 2}
    run = platform.as_user("ada").trigger_dag("rescale_job", conf, dag_run_id=f"fails-nothing-{uuid.uuid4()}")
    run.question()
    assert f"back {run.run_id}" not in notices(platform)
    run.by("grace").answer("Reject")
    assert run.end() == "failed", run.states()
    assert run.states()["go_back"] == "success"
    wait_for(lambda: f"back {run.run_id}" in notices(platform), "the notifier")


@pytest.mark.slow
def test_reminder_is_sent_once_before_the_deadline_of_a_question(platform: AirflowServer, tmp_path: Path) -> None:
    run = trigger_and_wait(platform, tmp_path / "rescaled", approval_minutes=10)
    wait_for(lambda: f"expiring {run.run_id}" in notices(platform), "the notifier")
    question = run.question()
    assert "Without an answer by" in question["body"]
    run.by("grace").answer("Approve")
    assert run.end() == "success", run.states()
    assert "nobody has answered yet" in run.log_text("approve")
    assert "approved by grace" in run.log_text("approve")
    kinds = [line.split()[0] for line in notices(platform) if run.run_id in line]
    assert kinds == ["waiting", "expiring"]
