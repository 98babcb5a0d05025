"""The error of a rejected plan says in which state the target is."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException

from rescale.airflow import rejection
from rescale.airflow.savepoint_tasks import rejected
from rescale.airflow.steps.earlier_tasks import ASK_TASK, PLAN_ANSWER_KEY, PLAN_TASK
from rescale.airflow.steps.retries import TaskEnded
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.plan.plan import Plan
from rescale.runstate.approval import decide
from rescale.runstate.claim import claim
from rescale.runstate.places import places_of
from rescale.runstate.runs import note_run
from rescale.text.errors import RequestError
from support.filled_forms import PLACES, filled
from support.pipeline import execute_without_spark, move, plan_rescale
from support.snapshots import directory

ANSWER = "rejected by ada"
OTHER = {"airflow": "", "dag": "rescale", "run": "other"}


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_rescale(directory("2-clicks"), str(tmp_path / "rescaled"), ["3"])


def answered(plan: Plan, *, approved: bool = False, about: str | None = None, alive: bool = False) -> Any:
    """Return a task instance of a run whose question was answered; the run `other` may be alive."""
    xcoms = {
        (ASK_TASK, PLAN_ANSWER_KEY): {"approved": approved, "plan": about or plan.digest, "words": ANSWER},
        (PLAN_TASK, "return_value"): {"target": plan.target, "digest": plan.digest, "plan": places_of(plan).plan},
    }
    return SimpleNamespace(
        dag_id="rescale",
        run_id="own",
        task_id="end",
        xcom_pull=lambda task_ids, key="return_value": xcoms.get((task_ids, key)),
        get_dr_count=lambda **_: int(alive),
    )


def refusal(instance: Any) -> RequestError:
    with pytest.raises(TaskEnded) as ended:
        rejected.function(params=filled(**PLACES), ti=instance)
    assert isinstance(ended.value.error, RequestError)
    return ended.value.error


def reject(plan: Plan) -> None:
    decide(plan, {"run": "own"}, ANSWER, is_approved=False)


def remaining_files(plan: Plan) -> list[Path]:
    return sorted(Path(plan.target).parent.iterdir())


def test_staged_files_of_a_rejected_plan_are_removed(plan: Plan) -> None:
    move(plan, InProcessTasks())
    reject(plan)
    error = refusal(answered(plan))
    assert (error.path, error.found) == (plan.target, ANSWER)
    assert remaining_files(plan) == []
    assert refusal(answered(plan)).path == plan.target  # if the task is cleared


def test_published_result_of_a_rejected_plan_is_reported_and_kept(plan: Plan) -> None:
    execute_without_spark(plan)
    before = remaining_files(plan)
    error = refusal(answered(plan))
    assert "is published" in error.what
    assert "nothing was published" not in str(error)
    assert remaining_files(plan) == before
    assert (Path(plan.target) / "_metadata").exists()


def test_files_that_another_run_works_on_are_kept(plan: Plan) -> None:
    claim(plan, run_identity={"airflow": "", "dag": "rescale", "run": "own"})
    note_run(plan, OTHER)
    reject(plan)
    before = remaining_files(plan)
    error = refusal(answered(plan, alive=True))
    assert "run other" in str(error.found)
    assert remaining_files(plan) == before


def test_earlier_approval_by_another_run_stands(plan: Plan) -> None:
    claim(plan)
    decide(plan, OTHER, "approved by bob", is_approved=True)
    before = remaining_files(plan)
    error = refusal(answered(plan))
    assert "approved by bob" in str(error.found)
    assert remaining_files(plan) == before


@pytest.mark.parametrize("answer", [{"approved": True}, {"about": "0" * 64}])
def test_files_are_kept_if_this_plan_was_not_rejected(
    answer: dict[str, Any], plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question failed for another reason; an answer about an earlier plan does not count."""
    monkeypatch.setattr(rejection, "skip_task", Mock(side_effect=AirflowSkipException))
    claim(plan)
    before = remaining_files(plan)
    with pytest.raises(AirflowSkipException):
        rejected.function(params=filled(**PLACES), ti=answered(plan, **answer))
    assert remaining_files(plan) == before
