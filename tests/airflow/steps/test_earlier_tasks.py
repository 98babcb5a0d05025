"""A task that was marked as successful by hand has no output, and every task that needs the output says so."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException
from airflow.sdk import DAG, Asset

from rescale.airflow import savepoint_work
from rescale.airflow.approval import PlanApproval
from rescale.airflow.flink.job_record import JobRecord, Phase
from rescale.airflow.flink.operators import HandOverJob
from rescale.airflow.flink.stopping import JobToRestart
from rescale.airflow.hand_overs import RunJar
from rescale.airflow.job import job_operators
from rescale.airflow.job.job_operators import GoBack, TakeSavepoint
from rescale.airflow.savepoint_tasks import (
    RESCALED_SAVEPOINT,
    announce,
    inspect,
    publish_result,
    redistribute,
    reshuffle,
    validate,
)
from rescale.airflow.steps.earlier_tasks import (
    ASK_TASK,
    LOOK_TASK,
    OPEN_TASK,
    PLAN_ANSWER_KEY,
    PLAN_TASK,
    PUBLISH_TASK,
    TAKE_TASK,
    XComField,
)
from rescale.airflow.steps.retries import TaskEnded
from rescale.airflow.windows.window_tasks import close_window
from rescale.flink_rest.client import StopMode
from rescale.plan.plan import Plan
from rescale.runstate.approval import decide
from rescale.runstate.claim import claim
from rescale.runstate.documents import store_plan
from rescale.runstate.places import places_of
from support.asset_events import AssetEvents
from support.deferring import TaskState, shared_by_the_run
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
    """Return the XCom of the task `plan`."""
    return {"plan": places_of(plan).plan, "target": plan.target, "digest": plan.digest, "published": False}


def instance(xcoms: Xcoms) -> Any:
    """Return a task instance of a run with these XComs, by task and key."""

    def xcom_pull(task_ids: str, key: str = "return_value") -> Any:
        return xcoms.get((task_ids, key))

    return SimpleNamespace(xcom_pull=xcom_pull, dag_id="a-dag", run_id="a-run", task_id="end", task=SimpleNamespace())


def form(**values: Any) -> dict[str, Any]:
    return filled(source=directory("2-clicks"), target="/rescaled", parallelism=3, **values)


def called(task: Any, *inputs: Any, xcoms: Xcoms | None = None, **more: Any) -> Any:
    known = {"ti": instance(xcoms or {}), **more}
    function = task.function if hasattr(task, "function") else function_of_step(task)
    accepted = signature(function).parameters
    context = {name: value for name, value in known.items() if name in accepted}
    return function(*inputs, params=form(require_approval=True), **context)


def function_of_step(task: Any) -> Any:
    with DAG("a-dag", schedule=None):
        return task(None, PLAN_TASK).operator.python_callable


def executed(operator: Any) -> Any:
    context: Any = {"ti": instance({}), "params": {**form(require_approval=True), "while_it_runs": False}}
    return operator.execute(context)


START = {"snapshot": "/rescaled", "parallelism": 3, "max_parallelism": None}

MISSED: dict[str, tuple[str, Callable[[], Any]]] = {
    "plan": (PLAN_TASK, lambda: called(publish_result, None)),
    "plan, by a step": (PLAN_TASK, lambda: called(reshuffle, None)),
    "plan, by the announcement": (PLAN_TASK, lambda: announce.function(None, params=form())),
    "plan, by the question": (
        PLAN_TASK,
        lambda: executed(PlanApproval(task_id=ASK_TASK, plan_task_id=PLAN_TASK, closes_at=None)),
    ),
    "savepoint": (
        TAKE_TASK,
        lambda: called(inspect, {"source": XComField(TAKE_TASK, "savepoint")}, dag=SimpleNamespace(params=form())),
    ),
    "job": (LOOK_TASK, lambda: executed(TakeSavepoint(task_id="take", old_job_document=None))),
    "job, to hand over": (LOOK_TASK, lambda: executed(HandOverJob(task_id="hand_over", start=START))),
    "job, to go back to": (LOOK_TASK, lambda: executed(GoBack(task_id="go_back", old_job_document=None))),
    "result": (PUBLISH_TASK, lambda: executed(HandOverJob(task_id="hand_over", start=None))),
}


@pytest.mark.parametrize("name", MISSED)
def test_missing_output_of_an_earlier_task_is_a_final_error(name: str) -> None:
    task_id, call = MISSED[name]
    with pytest.raises(TaskEnded) as ended:
        call()
    assert f"the task {task_id!r} has no output: it did not finish" in str(ended.value)
    assert ended.value.error.is_final


@pytest.mark.parametrize("task", [reshuffle, redistribute, validate, publish_result])
@pytest.mark.parametrize("rejected", [False, True])
def test_plan_without_a_stored_approval_is_not_executed(task: Any, rejected: bool, plan: Plan) -> None:
    """The task `approve` was marked as successful, or somebody wrote an answer into its XCom."""
    claim(plan)
    if rejected:
        decide(plan, {"run": "a-run"}, "rejected by ada", is_approved=False)
    xcoms = {(ASK_TASK, PLAN_ANSWER_KEY): {"approved": True, "words": "approved by nobody", "plan": plan.digest}}
    with pytest.raises(TaskEnded) as ended:
        called(task, planned(plan), xcoms=xcoms)
    assert ("rejected by ada" in str(ended.value.error.found)) is rejected
    assert not Path(plan.target).exists()


def test_unpublished_result_is_neither_announced_nor_remembered_by_a_window(plan: Plan) -> None:
    """The task `publish` was marked as successful."""
    window, remembered = Asset("a-window"), Mock()
    close = close_window(window).operator.python_callable
    opened = {"target": plan.target, "written": datetime.now(UTC).isoformat(), "closes": "later"}
    events = AssetEvents(RESCALED_SAVEPOINT, window)
    xcoms = {(PLAN_TASK, "return_value"): planned(plan), (OPEN_TASK, "return_value"): opened}
    sentence = "nothing was published: the task 'publish' did not finish"
    with pytest.raises(TaskEnded, match=sentence):
        announce.function(planned(plan), params=form(), outlet_events=events)
    with pytest.raises(TaskEnded, match=sentence):
        close(params=form(), ti=instance(xcoms), asset_state_store=remembered, outlet_events=events)
    remembered.set.assert_not_called()
    assert [vars(event) for event in events.values()] == [{}, {}]


@pytest.mark.parametrize("write_time", ["2026-11-02T02:00:00+00:00", "2026-11-03T02:00:00+00:00"])
def test_window_keeps_the_newest_savepoint_it_has_rescaled(
    write_time: str, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task of an older run may be cleared."""
    monkeypatch.setattr(savepoint_work, "published_plan", lambda _: plan)
    monkeypatch.setattr(savepoint_work, "add_event", lambda *_: True)
    window = Asset("a-window")
    close = close_window(window).operator.python_callable
    opened = {"target": plan.target, "written": write_time, "closes": "later"}
    remembered, events = Mock(), AssetEvents(window)
    remembered.get.return_value = {"written": "2026-11-02T14:00:00+00:00"}
    xcoms = {(OPEN_TASK, "return_value"): opened}
    close(params=form(), ti=instance(xcoms), asset_state_store=remembered, outlet_events=events)
    assert remembered.set.called == (write_time > "2026-11-02T14")


def stopped(job_id: str) -> JobToRestart:
    jar = RunJar("http://flink", "clicks.jar")
    return JobToRestart("http://flink", job_id, "clicks", StopMode.STOP, "/savepoints", 2, jar)


@pytest.mark.parametrize(("handed_over", "goes_back"), [("1" * 32, True), ("3" * 32, False)])
def test_hand_over_before_the_run_was_cleared_is_ignored(
    handed_over: str, goes_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole run was cleared, and the job that runs now is stopped as well."""
    went = Mock(return_value={})
    monkeypatch.setattr(GoBack, "_start_again", went)
    monkeypatch.setattr(job_operators, "skip_task", Mock(side_effect=AirflowSkipException))
    context: Any = {"ti": instance({})}
    task = GoBack(task_id="go_back", old_job_document=msgspec.to_builtins(stopped("3" * 32)))
    with shared_by_the_run(TaskState()):
        JobRecord("a-dag/a-run", stopped(handed_over), None).note(Phase.STARTED)
        if goes_back:
            task.execute(context)
        else:
            with pytest.raises(AirflowSkipException):
                task.execute(context)
    assert went.called == goes_back
