"""A task that somebody has marked as successful told nothing: whatever comes after it misses that, and says so."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowSkipException

from rescale.orchestration.approval import PlanApproval
from rescale.orchestration.flink.operators import GoBack, HandOverJob, TakeSavepoint
from rescale.orchestration.job import job_tasks
from rescale.orchestration.job.job_tasks import GoBackIfNeeded
from rescale.orchestration.savepoint_tasks import (
    RESCALED_SAVEPOINT,
    announce,
    inspect,
    publish_result,
    redistribute,
    rejected,
    reshuffle,
    validate,
)
from rescale.orchestration.steps.attempts import TaskEnded
from rescale.orchestration.steps.earlier_tasks import APPROVED, ASK, LOOK, PLAN, PUBLISH, TAKE, Told
from rescale.orchestration.windows import window_tasks
from rescale.orchestration.windows.window_tasks import close_window
from rescale.planning.values.plan import Plan
from rescale.target.documents import store_plan
from rescale.target.places import places_of
from support.filled_forms import filled
from support.pipeline import plan_rescale
from support.snapshots import directory

Xcoms = dict[tuple[str, str], Any]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    plan = plan_rescale(directory("2-clicks"), str(tmp_path / "rescaled"), ["3"])
    store_plan(plan)
    return plan


def planned(plan: Plan) -> dict[str, Any]:
    """What the task `plan` tells of it."""
    return {"plan": places_of(plan).plan, "target": plan.target, "digest": plan.digest, "published": False}


def instance(xcoms: Xcoms) -> Any:
    """A task instance of a run whose tasks have told just this, by task and key."""

    def xcom_pull(task_ids: str, key: str = "return_value") -> Any:
        return xcoms.get((task_ids, key))

    return SimpleNamespace(xcom_pull=xcom_pull, dag_id="a-dag", run_id="a-run", task=SimpleNamespace())


def form(**values: Any) -> dict[str, Any]:
    return filled(source=directory("2-clicks"), target="/rescaled", parallelism=3, **values)


def called(task: Any, *inputs: Any, xcoms: Xcoms | None = None, **more: Any) -> Any:
    return task.function(*inputs, params=form(require_approval=True), ti=instance(xcoms or {}), **more)


def executed(operator: Any) -> Any:
    context: Any = {"ti": instance({}), "params": form(require_approval=True)}
    return operator.execute(context)


START = {"snapshot": "/rescaled", "parallelism": 3, "max_parallelism": None}

MISSED: dict[str, tuple[str, Callable[[], Any]]] = {
    "plan": (PLAN, lambda: called(publish_result, None)),
    "plan, by a step": (PLAN, lambda: called(reshuffle, None)),
    "plan, by who tells of it": (PLAN, lambda: announce.function(None, params=form())),
    "plan, by the question": (
        PLAN,
        lambda: executed(PlanApproval(task_id=ASK, plan=PLAN, on_reject="rejected", closes=None)),
    ),
    "answer": (ASK, lambda: called(rejected, {"target": "/rescaled", "digest": "0" * 64})),
    "savepoint": (
        TAKE,
        lambda: called(inspect, {"source": Told(TAKE, "savepoint")}, dag=SimpleNamespace(params=form())),
    ),
    "job": (LOOK, lambda: executed(TakeSavepoint(task_id="take", before=None))),
    "job, to hand over": (LOOK, lambda: executed(HandOverJob(task_id="hand_over", start=START))),
    "job, to go back to": (LOOK, lambda: executed(GoBackIfNeeded(task_id="go_back", before=None))),
    "result": (PUBLISH, lambda: executed(HandOverJob(task_id="hand_over", start=None))),
}


@pytest.mark.parametrize("name", MISSED)
def test_what_was_not_told_is_missed_at_once(name: str) -> None:
    task_id, call = MISSED[name]
    with pytest.raises(TaskEnded) as ended:
        call()
    assert f"the task {task_id!r} has told nothing: it did not come to its end" in str(ended.value)
    assert ended.value.error.final


@pytest.mark.parametrize("task", [reshuffle, redistribute, validate, publish_result])
@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (None, "the task 'approve' has told nothing"),
        ({"approved": False, "words": "rejected by ada"}, "the plan was rejected"),
        ({"approved": True, "words": "approved by ada", "plan": "0" * 64}, "nobody was asked about this plan"),
        ({"approved": True, "words": "approved by ada", "plan": None}, "nobody was asked about this plan"),
    ],
)
def test_a_plan_that_nobody_has_approved_is_not_carried_out(
    task: Any, answer: dict[str, Any] | None, sentence: str, plan: Plan
) -> None:
    """Where both `plan` and `approve` were cleared, and `approve` is marked as successful, there is an older answer."""
    xcoms = {(ASK, APPROVED): answer and {"plan": plan.digest, **answer}}
    with pytest.raises(TaskEnded, match=sentence):
        called(task, planned(plan), xcoms=xcoms)
    assert not Path(plan.target).exists()


def test_what_is_not_published_is_told_to_nobody_and_no_window_remembers_it(plan: Plan) -> None:
    """Where somebody marks `publish` as successful."""
    window, remembered = Asset("a-window"), Mock()
    close = close_window(None, window).operator.python_callable
    opened = {"target": plan.target, "written": datetime.now(UTC).isoformat(), "closes": "later"}
    events: Any = {RESCALED_SAVEPOINT: SimpleNamespace(), window: SimpleNamespace()}
    xcoms = {(PLAN, "return_value"): planned(plan)}
    sentence = "nothing was published: the task 'publish' did not come to its end"
    with pytest.raises(TaskEnded, match=sentence):
        announce.function(planned(plan), params=form(), outlet_events=events)
    with pytest.raises(TaskEnded, match=sentence):
        close(opened, params=form(), ti=instance(xcoms), asset_state_store=remembered, outlet_events=events)
    remembered.set.assert_not_called()
    assert [vars(event) for event in events.values()] == [{}, {}]


@pytest.mark.parametrize("written", ["2026-11-02T02:00:00+00:00", "2026-11-03T02:00:00+00:00"])
def test_a_window_does_not_forget_what_is_newer(written: str, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a task of an older run is cleared."""
    monkeypatch.setattr(window_tasks, "the_published_plan", lambda _: plan)
    monkeypatch.setattr(window_tasks, "asset_extra", lambda _: {})
    window = Asset("a-window")
    close = close_window(None, window).operator.python_callable
    opened = {"target": plan.target, "written": written, "closes": "later"}
    remembered, events = Mock(), {window: SimpleNamespace()}
    remembered.get.return_value = {"written": "2026-11-02T14:00:00+00:00"}
    monkeypatch.setattr(window_tasks, "events_of", lambda *_: [])
    close(opened, params=form(), ti=instance({}), asset_state_store=remembered, outlet_events=events)
    assert remembered.set.called == (written > "2026-11-02T14")


JOB = {"job_id": "3" * 32, "taking": "stop", "name": "clicks"}


@pytest.mark.parametrize(("in_place_of", "goes_back"), [("1" * 32, True), ("3" * 32, False)])
def test_a_hand_over_of_an_earlier_pass_is_none_of_this_one(
    in_place_of: str, goes_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the whole run is cleared, and the job that runs by now is stopped, too."""
    went = Mock(return_value={})
    monkeypatch.setattr(GoBack, "execute", went)
    monkeypatch.setattr(job_tasks, "skip_task", Mock(side_effect=AirflowSkipException))
    told = {("hand_over", "return_value"): {"job": "2" * 32, "in_place_of": in_place_of}}
    context: Any = {"ti": instance(told)}
    task = GoBackIfNeeded(task_id="go_back", before=JOB)
    if goes_back:
        task.execute(context)
    else:
        with pytest.raises(AirflowSkipException):
            task.execute(context)
    assert went.called == goes_back
