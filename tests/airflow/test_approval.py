"""Waiting time of an approval if clocks of workers disagree, the approved plan, and repeated questions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator, HITLOperator

from rescale.airflow import approval
from rescale.airflow.approval import PlanApproval
from rescale.airflow.forms.dag_arguments import with_defaults
from rescale.airflow.forms.form import rescale_form
from rescale.airflow.settings import ApprovalRules
from rescale.airflow.steps import required_approval
from rescale.airflow.steps.retries import TaskEnded
from rescale.plan.plan import Plan
from rescale.runstate.approval import decide
from rescale.runstate.decisions import approval_of
from rescale.runstate.documents import put_document
from rescale.runstate.places import places_of
from support.filled_forms import PLACES, filled
from support.pipeline import claimed_plan
from support.snapshots import directory

HOUR = timedelta(hours=1)
REMIND = timedelta(minutes=30)

Planned = dict[str, Any]
"""XCom of the task `plan`."""


class QuestionAsked(Exception):  # noqa: N818
    """Raised instead of deferring the task, as Airflow does to wait for an answer."""


class Clock(datetime):
    """Clock of a worker."""

    ahead = timedelta()

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return datetime.now(tz) + cls.ahead


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Return a plan that has claimed its target."""
    plan = claimed_plan(directory("2-clicks"), str(tmp_path / "rescaled"), ["3"])
    put_document(places_of(plan).plan_page, b"question")
    return plan


@pytest.fixture
def planned(plan: Plan) -> Planned:
    summary = {"source": plan.source, "target": plan.target, "asked": "parallelism 3"}
    return {"published": False, "plan": places_of(plan).plan, "digest": plan.digest, **summary}


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> PlanApproval:
    rules = ApprovalRules(remind_minutes=REMIND.total_seconds() / 60)
    notify = SimpleNamespace(waiting=[], expiring=[Mock()])
    for module in (approval, required_approval):
        monkeypatch.setattr(module, "settings", lambda: SimpleNamespace(approval=rules, notify=notify))
    monkeypatch.setattr(approval, "datetime", Clock)
    monkeypatch.setattr(approval, "report_url", lambda *_: "/report")
    monkeypatch.setattr(ApprovalOperator, "execute", Mock(side_effect=QuestionAsked))
    nobody = {"chosen_options": [PlanApproval.REJECT], "responded_by_user": None, "responded_at": datetime.now(UTC)}
    monkeypatch.setattr(HITLOperator, "execute_complete", lambda *_: nobody)
    return PlanApproval(task_id="approve", plan_task_id="plan", closes_at=None)


def context_of_run(xcoms: dict[str, Any], planned: Planned, run_id: str = "manual", alive: Sequence[str] = ()) -> Any:
    """Return the context of a question about this plan; XComs go into `xcoms`. Runs in `alive` are still active."""
    instance = SimpleNamespace(
        dag_id="rescale",
        run_id=run_id,
        task_id="end",
        xcom_pull=lambda task_ids, key="return_value": planned if task_ids == "plan" else xcoms[key],
        xcom_push=xcoms.__setitem__,
        get_dr_count=lambda run_ids, **_: len({*run_ids} & {*alive}),
    )
    return {
        "ti": instance,
        "dag_run": SimpleNamespace(dag_id="rescale", run_id=run_id),
        "params": filled(**PLACES, parallelism=3, require_approval=True),
    }


@pytest.mark.parametrize("ahead", [HOUR, -HOUR, timedelta()])
def test_reminder_keeps_the_deadline_whatever_the_clock_of_the_next_worker(
    ahead: timedelta, asking: PlanApproval, planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    xcoms: dict[str, Any] = {}
    context, asked_at = context_of_run(xcoms, planned), datetime.now(UTC)
    with pytest.raises(QuestionAsked):
        asking.execute(context)
    until = datetime.fromisoformat(xcoms["asked"]["until"])
    assert asked_at + 2 * HOUR <= until <= datetime.now(UTC) + 2 * HOUR
    assert asking.response_timeout == 2 * HOUR - REMIND
    monkeypatch.setattr(Clock, "ahead", ahead)
    with pytest.raises(QuestionAsked):
        asking.execute_complete(context, {"timedout": True})
    assert asking.response_timeout == REMIND
    assert datetime.fromisoformat(xcoms["asked"]["until"]) == until


@pytest.mark.parametrize(("platform", "expected"), [({}, 120), ({"approval_minutes": 240}, 240)])
def test_cleared_minutes_mean_the_default_of_the_platform(
    platform: dict[str, Any],
    expected: int,
    asking: PlanApproval,
    planned: Planned,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(approval, "form_of_platform", lambda: with_defaults(rescale_form(), platform))
    xcoms: dict[str, Any] = {}
    context = context_of_run(xcoms, planned)
    context["params"] = filled(**PLACES, parallelism=3, require_approval=True, approval_minutes=None)
    asked_at = datetime.now(UTC)
    with pytest.raises(QuestionAsked):
        asking.execute(context)
    until = datetime.fromisoformat(xcoms["asked"]["until"])
    assert asked_at + timedelta(minutes=expected) <= until <= datetime.now(UTC) + timedelta(minutes=expected)


def approved_by_ada(at: datetime) -> dict[str, Any]:
    ada = {"id": "ada", "name": "ada"}
    return {"chosen_options": [PlanApproval.APPROVE], "responded_by_user": ada, "responded_at": at}


@pytest.mark.parametrize("event", [{}, {"timedout": True}], ids=["answered", "seen late"])
def test_answer_after_the_deadline_does_not_count(
    event: dict[str, Any], asking: PlanApproval, plan: Plan, planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow accepts an answer until its scheduler has seen that the time is over."""
    xcoms: dict[str, Any] = {}
    context = context_of_run(xcoms, planned)
    with pytest.raises(QuestionAsked):
        asking.execute(context)
    until = datetime.fromisoformat(xcoms["asked"]["until"])
    monkeypatch.setattr(HITLOperator, "execute_complete", lambda *_: approved_by_ada(until + HOUR))
    with pytest.raises(TaskEnded):
        asking.execute_complete(context, event)
    assert xcoms["approved"]["approved"] is False
    assert xcoms["approved"]["words"].startswith("ada answered after ")
    decision = approval_of(places_of(plan)).decision
    assert decision is not None
    assert not decision.approved


def test_approval_is_of_the_plan_that_was_shown(
    asking: PlanApproval, plan: Plan, planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task `plan` alone was cleared meanwhile."""
    monkeypatch.setattr(HITLOperator, "execute_complete", lambda *_: approved_by_ada(datetime.now(UTC)))
    xcoms: dict[str, Any] = {}
    with pytest.raises(QuestionAsked):
        asking.execute(context_of_run(xcoms, planned))
    asking.execute_complete(context_of_run(xcoms, planned | {"digest": "made meanwhile"}), {})
    assert xcoms["approved"] == {"approved": True, "plan": plan.digest, "words": "approved by ada"}
    decision = approval_of(places_of(plan)).decision
    assert decision is not None
    assert (decision.approved, decision.answer, decision.by["run"]) == (True, "approved by ada", "manual")


def test_second_run_is_refused_while_another_asks_about_the_same_plan(asking: PlanApproval, planned: Planned) -> None:
    with pytest.raises(QuestionAsked):
        asking.execute(context_of_run({}, planned, "first"))
    with pytest.raises(TaskEnded) as caught:
        asking.execute(context_of_run({}, planned, "second", alive=["first"]))
    assert "run first" in str(caught.value.error.found)
    with pytest.raises(QuestionAsked):
        asking.execute(context_of_run({}, planned, "second"))


def test_open_question_is_asked_even_by_a_run_without_approval(asking: PlanApproval, planned: Planned) -> None:
    """The run that asked may have been cancelled."""
    with pytest.raises(QuestionAsked):
        asking.execute(context_of_run({}, planned, "first"))
    context = context_of_run({}, planned, "second")
    context["params"] |= {"require_approval": False}
    with pytest.raises(QuestionAsked):
        asking.execute(context)


@pytest.mark.parametrize("before", [True, False])
def test_stored_decision_stands(before: bool, asking: PlanApproval, plan: Plan, planned: Planned) -> None:
    """A plan with a stored decision is not asked about again, and no later answer changes the decision."""
    xcoms: dict[str, Any] = {}
    with pytest.raises(QuestionAsked):
        asking.execute(context_of_run(xcoms, planned))
    decide(plan, {"run": "another"}, "said by bob", is_approved=before)
    with pytest.raises(TaskEnded):
        asking.execute_complete(context_of_run(xcoms, planned), {})  # without an answer
    assert xcoms["approved"]["approved"] is False
    assert ("said by bob" in xcoms["approved"]["words"]) is True
    if before:
        asking.execute(context_of_run(xcoms, planned))
    else:
        with pytest.raises(TaskEnded):
            asking.execute(context_of_run(xcoms, planned))
    assert xcoms["approved"]["approved"] is before
