"""Report pages of a run on the api-server, and their permissions; `tests/whole_airflow` shows them in a whole Airflow.

Airflow's simple auth manager lets all users see every run, so a manager that can refuse replaces it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from airflow.api_fastapi.common.db.common import _get_session
from airflow.api_fastapi.core_api import security
from airflow.sdk.execution_time.xcom import XCom
from fastapi.testclient import TestClient
from httpx import Response

from rescale.airflow.reports.report_app import report_app
from rescale.airflow.reports.report_link import URL_PREFIX, ReportLink, ReportPage, airflow_url, report_url
from rescale.airflow.reports.report_plugin import RescalePlugin
from rescale.plan.plan import Plan
from rescale.report.pages.planned import plan_document
from rescale.report.stored import put_report
from rescale.runstate.places import places_of
from rescale.runstate.removal import discard
from support.pipeline import claimed_plan
from support.snapshots import directory

PATH = "/report/rescale_savepoint/manual__2026-01-01T00:00:00+00:00"


@dataclass
class Manager:
    """Manager of permissions that records each question and gives the prepared answer."""

    allows: bool = True
    questions: list[tuple[str, str, str | None]] = field(default_factory=list)

    def is_authorized_dag(self, *, method: str, access_entity: Any, details: Any, user: object) -> bool:
        assert user == "vera"
        self.questions.append((method, access_entity.value, details.id))
        return self.allows


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Return a plan that has claimed its target and stored its report."""
    plan = claimed_plan(directory("2-clicks"), str(tmp_path / "target"), ["3"])
    from rescale.snapshot.kafka.offsets import kafka_offsets
    from rescale.snapshot.reading.opening import open_snapshot

    snapshot = open_snapshot(plan.source)
    put_report(plan, plan_document(plan, snapshot, kafka_offsets(snapshot)))
    return plan


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Manager:
    manager_of_test = Manager()
    monkeypatch.setattr(security, "get_auth_manager", lambda: manager_of_test)
    monkeypatch.setattr(security.DagModel, "get_team_name", lambda _: None)
    return manager_of_test


@pytest.fixture
def ask(manager: Manager) -> Callable[[Any], Response]:  # noqa: ARG001
    """Return a function that requests the report of a run which has left this XCom."""

    def get(value: Any) -> Response:
        app = report_app()
        xcom = None if value is None else SimpleNamespace(value=value)
        session = SimpleNamespace(scalars=lambda _: SimpleNamespace(first=lambda: xcom))
        app.dependency_overrides = {_get_session: lambda: session, security.get_user: lambda: "vera"}
        return TestClient(app).get(PATH)

    return get


def place_of(plan: Plan, **other: Any) -> dict[str, Any]:
    return {"target": plan.target, "digest": plan.digest, "connection": None, **other}


def test_stored_page_is_shown_with_a_policy_that_forbids_scripts(plan: Plan, ask: Callable[[Any], Response]) -> None:
    answer = ask(place_of(plan))
    assert answer.status_code == 200
    assert answer.content == Path(places_of(plan).report).read_bytes()
    policy = answer.headers["content-security-policy"].split("; ")
    style = answer.text.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert {"default-src 'none'", f"style-src 'sha256-{digest}'", "sandbox", "frame-ancestors 'self'"} <= set(policy)
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "private, no-store"


def test_user_without_permission_for_the_run_is_refused(
    plan: Plan, manager: Manager, ask: Callable[[Any], Response]
) -> None:
    manager.allows = False
    answer = ask(place_of(plan))
    assert (answer.status_code, answer.text) == (403, "Forbidden\n")
    assert manager.questions == [("GET", "RUN", "rescale_savepoint")]


@pytest.mark.parametrize("value", [None, "s3://bucket/x", {"target": "/etc"}, {"report": "/etc/passwd"}, 7])
def test_run_without_a_plan_has_no_report(value: Any, ask: Callable[[Any], Response]) -> None:
    answer = ask(value)
    assert (answer.status_code, answer.text) == (404, "there is no report of this run\n")


def test_only_the_report_of_the_plan_of_the_run_is_shown(
    plan: Plan, ask: Callable[[Any], Response], tmp_path: Path
) -> None:
    for other in (place_of(plan, digest="0" * 64), place_of(plan, target=str(tmp_path))):
        answer = ask(other)
        assert answer.status_code == 404
        assert "no longer exists" in answer.text
    discard(plan.target)
    assert f"{places_of(plan).report} no longer exists" in ask(place_of(plan)).text


def test_unreachable_store_is_reported(plan: Plan, ask: Callable[[Any], Response]) -> None:
    answer = ask(place_of(plan, target="s3://bucket/target", connection="nobody"))
    assert answer.status_code == 502
    assert answer.text.startswith("the api-server cannot read the report: there is no connection 'nobody'")


def test_user_who_is_not_logged_in_is_redirected_to_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/team/")
    client = TestClient(report_app(), follow_redirects=False)
    assert client.get(PATH, headers={"accept": "application/json"}).status_code == 401
    answer = client.get(PATH, headers={"accept": "text/html,*/*"})
    assert answer.status_code == 307
    assert answer.headers["location"].startswith("https://airflow.example/team/api/v2/auth/login?next=%2Freport%2F")


def test_report_url_names_the_run_and_the_planning_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/team/")
    run = "https://airflow.example/team/rescale/report/a/manual__1%2B1%2F2"
    assert report_url("a", "manual__1+1/2", "g.plan") == f"{run}?task=g.plan"
    monkeypatch.delenv("AIRFLOW__API__BASE_URL")
    assert airflow_url("/x") == "/x"


@pytest.mark.parametrize(
    ("link", "task", "index", "query"),
    [
        (ReportLink(), "copy", 3, "task=copy&map_index=3"),  # a `RescaleOperator` that was expanded
        (ReportLink(), "copy", -1, "task=copy"),
        (ReportLink("plan"), "g.publish", -1, "task=g.plan"),
    ],
)
def test_link_leads_to_the_report_of_its_own_task_instance(
    link: ReportLink, task: str, index: int, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planning_task = query.partition("&")[0].removeprefix("task=")
    stored_for = {"dag_id": "a", "run_id": "r", "key": "rescale_report", "task_id": planning_task, "map_index": index}
    monkeypatch.setattr(XCom, "get_one", lambda **asked_for: {} if asked_for == stored_for else None)
    key = SimpleNamespace(dag_id="a", run_id="r", task_id=task, map_index=index)
    assert link.get_link(None, ti_key=key).endswith(f"/rescale/report/a/r?{query}")


def test_report_of_a_mapped_task_is_asked_for_by_its_index(plan: Plan, manager: Manager) -> None:  # noqa: ARG001
    queries: list[str] = []

    def scalars(query: Any) -> Any:
        queries.append(str(query.compile(compile_kwargs={"literal_binds": True})))
        return SimpleNamespace(first=lambda: SimpleNamespace(value=place_of(plan)))

    app = report_app()
    session = SimpleNamespace(scalars=scalars)
    app.dependency_overrides = {_get_session: lambda: session, security.get_user: lambda: "vera"}
    assert TestClient(app).get(f"{PATH}?task=copy&map_index=3").status_code == 200
    assert "map_index = 3" in queries[0]


def test_plugin_brings_one_application() -> None:
    (app,) = RescalePlugin().fastapi_apps
    assert app["url_prefix"] == "/rescale"
    assert [route.path for route in app["app"].routes] == ["/report/{dag_id}/{run_id:path}"]


def test_report_is_a_tab_of_the_run() -> None:
    (view,) = RescalePlugin.external_views
    assert view["destination"] == "dag_run"
    assert view["href"] == f"{URL_PREFIX}/report/{{DAG_ID}}/{{RUN_ID}}"


def test_page_of_a_run_that_only_planned_is_read_from_its_xcom(ask: Callable[[Any], Response]) -> None:
    html = b"<html><style>p {}</style></html>"
    answer = ask(msgspec.to_builtins(ReportPage.compress(html)))
    assert (answer.status_code, answer.content) == (200, html)
    assert "sandbox" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("page", ["", "?", "AAAA", 7, None])
def test_invalid_page_in_the_xcom_is_not_shown(page: Any, ask: Callable[[Any], Response]) -> None:
    answer = ask({"page": page})
    assert (answer.status_code, answer.content) in ((404, b"there is no report of this run\n"), (200, b""))


def test_page_in_the_xcom_is_shown_up_to_a_maximum_length(ask: Callable[[Any], Response]) -> None:
    answer = ask(msgspec.to_builtins(ReportPage.compress(bytes(5 << 20))))
    assert len(answer.content) == 4 << 20
