"""What the api-server shows of a run, and to whom; a whole Airflow shows it in `tests/airflow`.

Airflow's simple users may all see every run: that somebody may not is what a manager of permissions says here.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.api_fastapi.common.db.common import _get_session
from airflow.api_fastapi.core_api import security
from fastapi.testclient import TestClient
from httpx import Response

from rescale.orchestration.reports.report_app import report_app
from rescale.orchestration.reports.report_link import airflow_url, report_url
from rescale.orchestration.reports.report_plugin import RescalePlugin
from rescale.planning.values.plan import Plan
from rescale.report.pages.planned import plan_document
from rescale.report.stored import put_report
from rescale.target.claim import claim
from rescale.target.places import places_of
from rescale.target.removal import discard
from support.pipeline import plan_rescale
from support.snapshots import directory

PATH = "/report/rescale_savepoint/manual__2026-01-01T00:00:00+00:00"


@dataclass
class Manager:
    """Of permissions: it writes down what it is asked, and says what it is told to."""

    allows: bool = True
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)

    def is_authorized_dag(self, *, method: str, access_entity: Any, details: Any, user: object) -> bool:
        assert user == "vera"
        self.asked.append((method, access_entity.value, details.id))
        return self.allows


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """It has claimed its target, and its report lies there."""
    plan = plan_rescale(directory("2-clicks"), str(tmp_path / "target"), ["3"])
    claim(plan)
    from rescale.snapshot.kafka.offsets import kafka_offsets
    from rescale.snapshot.opening import open_snapshot

    snapshot = open_snapshot(plan.source)
    put_report(plan, plan_document(plan, snapshot, kafka_offsets(snapshot)))
    return plan


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Manager:
    made = Manager()
    monkeypatch.setattr(security, "get_auth_manager", lambda: made)
    monkeypatch.setattr(security.DagModel, "get_team_name", lambda _: None)
    return made


@pytest.fixture
def ask(manager: Manager) -> Callable[[Any], Response]:  # noqa: ARG001
    """Asks for the report of a run that has left this XCom."""

    def get(value: Any) -> Response:
        app = report_app()
        found = None if value is None else SimpleNamespace(value=value)
        session = SimpleNamespace(scalars=lambda _: SimpleNamespace(first=lambda: found))
        app.dependency_overrides = {_get_session: lambda: session, security.get_user: lambda: "vera"}
        return TestClient(app).get(PATH)

    return get


def place_of(plan: Plan, **other: Any) -> dict[str, Any]:
    return {"target": plan.target, "digest": plan.digest, "connection": None, **other}


def test_the_page_is_shown_as_it_lies_there_and_may_do_nothing(plan: Plan, ask: Callable[[Any], Response]) -> None:
    answer = ask(place_of(plan))
    assert answer.status_code == 200
    assert answer.content == Path(places_of(plan).report).read_bytes()
    policy = answer.headers["content-security-policy"].split("; ")
    style = answer.text.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert {"default-src 'none'", f"style-src 'sha256-{digest}'", "sandbox", "frame-ancestors 'none'"} <= set(policy)
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "private, no-store"


def test_who_may_not_see_the_run_is_refused(plan: Plan, manager: Manager, ask: Callable[[Any], Response]) -> None:
    manager.allows = False
    answer = ask(place_of(plan))
    assert (answer.status_code, answer.text) == (403, "Forbidden\n")
    assert manager.asked == [("GET", "RUN", "rescale_savepoint")]


@pytest.mark.parametrize("value", [None, "s3://bucket/x", {"target": "/etc"}, {"report": "/etc/passwd"}, 7])
def test_a_run_that_has_said_nothing_has_no_report(value: Any, ask: Callable[[Any], Response]) -> None:
    answer = ask(value)
    assert (answer.status_code, answer.text) == (404, "there is no report of this run\n")


def test_only_the_report_of_the_run_s_own_plan_is_shown(
    plan: Plan, ask: Callable[[Any], Response], tmp_path: Path
) -> None:
    for other in (place_of(plan, digest="0" * 64), place_of(plan, target=str(tmp_path))):
        answer = ask(other)
        assert answer.status_code == 404
        assert "is gone" in answer.text
    discard(plan.target)
    assert f"{places_of(plan).report} is gone" in ask(place_of(plan)).text


def test_a_store_that_cannot_be_reached_is_named(plan: Plan, ask: Callable[[Any], Response]) -> None:
    answer = ask(place_of(plan, target="s3://bucket/target", connection="nobody"))
    assert answer.status_code == 502
    assert answer.text.startswith("the report cannot be read from here: there is no connection 'nobody'")


def test_somebody_who_has_not_logged_in_is_shown_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/team/")
    client = TestClient(report_app(), follow_redirects=False)
    assert client.get(PATH, headers={"accept": "application/json"}).status_code == 401
    answer = client.get(PATH, headers={"accept": "text/html,*/*"})
    assert answer.status_code == 307
    assert answer.headers["location"].startswith("https://airflow.example/team/api/v2/auth/login?next=%2Freport%2F")


def test_a_link_names_the_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/team/")
    assert report_url("a", "manual__1+1/2") == "https://airflow.example/team/rescale/report/a/manual__1%2B1%2F2"
    monkeypatch.delenv("AIRFLOW__API__BASE_URL")
    assert airflow_url("/x") == "/x"


def test_the_plugin_brings_one_application() -> None:
    (app,) = RescalePlugin().fastapi_apps
    assert app["url_prefix"] == "/rescale"
    assert [route.path for route in app["app"].routes] == ["/report/{dag_id}/{run_id:path}"]
