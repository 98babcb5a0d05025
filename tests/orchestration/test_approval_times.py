"""How long an approval waits, where the clocks of workers do not agree, and which plan is approved."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator, HITLOperator

from rescale.orchestration import approval
from rescale.orchestration.approval import PlanApproval

HOUR = timedelta(hours=1)
PLANNED = {
    **{"published": False, "plan": "/plan", "digest": "shown"},
    **{"source": "/source", "target": "/target", "asked": "parallelism 3"},
}
REMIND = timedelta(minutes=30)


class Parked(Exception):  # noqa: N818
    """As Airflow parks a task."""


class Clock(datetime):
    """That of a worker."""

    ahead = timedelta()

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return datetime.now(tz) + cls.ahead


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> PlanApproval:
    ours = SimpleNamespace(remind_minutes=REMIND.total_seconds() / 60, users=[], four_eyes=False)
    notify = SimpleNamespace(waiting=[], expiring=[Mock()])
    monkeypatch.setattr(approval, "settings", lambda: SimpleNamespace(approval=ours, notify=notify))
    monkeypatch.setattr(approval, "datetime", Clock)
    monkeypatch.setattr(approval, "storage_access", lambda _: nullcontext())
    monkeypatch.setattr(approval, "load_plan", Mock())
    monkeypatch.setattr(approval, "places_of", Mock())
    monkeypatch.setattr(approval, "report_url", lambda *_: "/report")
    monkeypatch.setattr(approval, "read_document", lambda _: b"question")
    monkeypatch.setattr(ApprovalOperator, "execute", Mock(side_effect=Parked))
    nobody = {"chosen_options": [PlanApproval.REJECT], "responded_by_user": None, "responded_at": datetime.now(UTC)}
    monkeypatch.setattr(HITLOperator, "execute_complete", lambda *_: nobody)
    return PlanApproval(task_id="approve", plan="plan", on_reject="discard", closes=None)


def asked_in(told: dict[str, Any], planned: dict[str, Any]) -> Any:
    """The context of a question, for which this was `planned`; what it tells is put into `told`."""
    instance = SimpleNamespace(
        dag_id="rescale",
        run_id="manual",
        xcom_pull=lambda task_ids, key="return_value": planned if task_ids == "plan" else told[key],
        xcom_push=told.__setitem__,
    )
    return {
        "ti": instance,
        "dag_run": SimpleNamespace(),
        "params": {"require_approval": True, "approval_minutes": 120, "connection": ""},
    }


@pytest.mark.parametrize("ahead", [HOUR, -HOUR, timedelta()])
def test_who_is_reminded_has_the_time_that_was_said_whatever_the_next_worker_s_clock_shows(
    ahead: timedelta, asking: PlanApproval, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: dict[str, Any] = {}
    context = asked_in(told, PLANNED)
    with pytest.raises(Parked):
        asking.execute(context)
    until = datetime.fromisoformat(told["asked"]["until"])
    assert until - datetime.now(UTC) == pytest.approx(2 * HOUR, abs=timedelta(minutes=1))
    assert asking.response_timeout == 2 * HOUR - REMIND
    monkeypatch.setattr(Clock, "ahead", ahead)
    with pytest.raises(Parked):
        asking.execute_complete(context, {"timedout": True})
    assert asking.response_timeout == REMIND
    assert datetime.fromisoformat(told["asked"]["until"]) == until


def approved_by_ada(at: datetime) -> dict[str, Any]:
    ada = {"id": "ada", "name": "ada"}
    return {"chosen_options": [PlanApproval.APPROVE], "responded_by_user": ada, "responded_at": at}


@pytest.mark.parametrize("event", [{}, {"timedout": True}], ids=["answered", "seen late"])
def test_an_answer_after_the_time_that_was_said_does_not_count(
    event: dict[str, Any], asking: PlanApproval, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow takes one as long as its scheduler has not seen that the time is over."""
    monkeypatch.setattr(asking, "get_direct_relatives", Mock(return_value=[]))
    monkeypatch.setattr(asking, "skip", Mock())
    told: dict[str, Any] = {}
    context = asked_in(told, PLANNED)
    with pytest.raises(Parked):
        asking.execute(context)
    until = datetime.fromisoformat(told["asked"]["until"])
    monkeypatch.setattr(HITLOperator, "execute_complete", lambda *_: approved_by_ada(until + HOUR))
    asking.execute_complete(context, event)
    assert told["approved"]["approved"] is False
    assert told["approved"]["words"].startswith("ada answered after ")


def test_the_plan_that_was_shown_is_approved_whatever_was_planned_meanwhile(
    asking: PlanApproval, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where somebody clears the task `plan` alone."""
    monkeypatch.setattr(HITLOperator, "execute_complete", lambda *_: approved_by_ada(datetime.now(UTC)))
    monkeypatch.setattr(asking, "get_direct_relatives", Mock(return_value=[]))
    monkeypatch.setattr(asking, "skip", Mock())
    told: dict[str, Any] = {}
    with pytest.raises(Parked):
        asking.execute(asked_in(told, PLANNED))
    asking.execute_complete(asked_in(told, PLANNED | {"digest": "made meanwhile"}), {})
    assert told["approved"] == {"approved": True, "plan": "shown", "words": "approved by ada"}
