"""The task graph that every rescale has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from airflow.sdk import TaskGroup, chain

from rescale.airflow.approval import PlanApproval
from rescale.airflow.ending import end_task, group_end_task
from rescale.airflow.savepoint_tasks import (
    PlaceXComs,
    announce,
    check_environment,
    inspect,
    inspect_with_values,
    plan,
    publish_result,
    redistribute,
    rejected,
    reshuffle,
    show_plan,
    validate,
)
from rescale.airflow.steps.earlier_tasks import ANNOUNCE_TASK, ASK_TASK, XComField

_ACCESS_FIELDS = ("connection", "source_connection")
"""Fields of the form that say how to reach the stores (`form_access`)."""

_FIELDS_AFTER_PLANNING = (
    *_ACCESS_FIELDS,
    "require_approval",
    "approval_minutes",
    "accept_unconditional_publish",
    "proof",
)
"""Fields of the form that tasks after the plan read; only tasks up to the plan read the other fields."""


class RescaleTasks(NamedTuple):
    """Tasks of a graph to which other tasks are chained; `result_tasks` publish the result, or hand the job over."""

    first_task: Any
    result_tasks: Any
    last_tasks: list[Any]


def rescale_graph(
    place_xcoms: PlaceXComs = None, closes_at: XComField | None = None, values: Mapping[str, Any] | None = None
) -> RescaleTasks:
    """Create the tasks of a rescale, from the inspection of the source to the announcement of the result.

    `place_xcoms` are output fields of earlier tasks with source and target, and `closes_at` is the output field with
    the latest time for the approval of the plan. `values` are values of form fields; None stands for the values that
    the run was started with.
    """
    values_after_planning = None if values is None else {name: values[name] for name in _FIELDS_AFTER_PLANNING}
    form_arguments = {} if values is None else {"params": values_after_planning}
    if values is None:
        inspect_task, plan_task = inspect(place_xcoms), plan(place_xcoms)
    else:
        inspect_task, plan_task = inspect_with_values(params=values), plan({}, params=values)
    rejected_task = rejected(**form_arguments)
    approve_task = PlanApproval(
        task_id=ASK_TASK,
        task_display_name="Approve the plan",
        doc_md="Waits until somebody approves the plan. Skipped if nobody has to; fails if the plan is rejected.",
        plan_task_id=plan_task.operator.task_id,
        closes_at=closes_at,
        values=values_after_planning,
    )
    with TaskGroup("move", prefix_group_id=False, group_display_name="Move and prove"):
        moving_tasks = [
            step(plan_task, plan_task.operator.task_id, values_after_planning) for step in (reshuffle, redistribute)
        ]
        validate_task = validate(plan_task, plan_task.operator.task_id, values_after_planning)
    publish_task = publish_result(plan_task, **form_arguments)
    announce_task = announce(plan_task, **form_arguments)
    chain(inspect_task, plan_task, approve_task, moving_tasks, validate_task, publish_task, announce_task)
    chain(approve_task, rejected_task)
    return RescaleTasks(inspect_task, publish_task, [announce_task, rejected_task])


def plan_only_graph() -> None:
    """Create the tasks of a run that only plans."""
    chain(inspect(None), [show_plan(), check_environment()])


def savepoint_graph() -> None:
    """Create the tasks of a rescale whose source the form names."""
    chain(rescale_graph().last_tasks, end_task(task_ids_after_publication=[ANNOUNCE_TASK]))


def task_group_graph(values: Mapping[str, Any]) -> None:
    """Create the tasks of a rescale in the current task group (`with group:`). `values` are the form's values."""
    chain(
        rescale_graph(values=values).last_tasks, group_end_task(params={name: values[name] for name in _ACCESS_FIELDS})
    )
