"""The task graph that every rescale has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from airflow.sdk import TaskGroup, chain

from rescale.airflow.approval import PlanApproval
from rescale.airflow.ending import end_task, group_end_task
from rescale.airflow.savepoint_tasks import (
    KnownPlaces,
    announce,
    check,
    inspect,
    inspect_given,
    look,
    plan,
    publish_result,
    redistribute,
    rejected,
    reshuffle,
    validate,
)
from rescale.airflow.steps.earlier_tasks import ANNOUNCE, ASK, XComField

_ACCESS = ("connection", "source_connection")
"""Fields of the form that say how to reach the stores (`form_access`)."""

_FIELDS_AFTER_PLANNING = (*_ACCESS, "require_approval", "approval_minutes", "accept_unconditional_publish", "proof")
"""Fields of the form that tasks after the plan read; all others are only read to make the plan."""


class RescaleTasks(NamedTuple):
    """Tasks of a graph to which other tasks are chained: the first one, those that publish, and the last ones."""

    first: Any
    published: Any
    last: list[Any]


def rescale_graph(
    known_places: KnownPlaces = None, closes: XComField | None = None, values: Mapping[str, Any] | None = None
) -> RescaleTasks:
    """Create the tasks of a rescale, from the inspection of the source to the announcement of the result.

    `known_places` are output fields of earlier tasks with source and target, and `closes` is the one with the deadline
    for the approval of the plan. `values` are values of form fields, which replace those of the DAG's form; None for
    the DAG's form.
    """
    values_after_planning = None if values is None else {name: values[name] for name in _FIELDS_AFTER_PLANNING}
    form_arguments = {} if values is None else {"params": values_after_planning}
    if values is None:
        inspected, planned = inspect(known_places), plan(known_places)
    else:
        inspected, planned = inspect_given(params=values), plan({}, params=values)
    rejection = rejected(**form_arguments)
    approve_task = PlanApproval(
        task_id=ASK,
        task_display_name="Approve the plan",
        doc_md="Waits until somebody approves the plan. Skipped if no approval is needed; fails if it is rejected.",
        plan=planned.operator.task_id,
        closes=closes,
        values=values_after_planning,
    )
    with TaskGroup("move", prefix_group_id=False, group_display_name="Move and prove"):
        moving_tasks = [
            step(planned, planned.operator.task_id, values_after_planning) for step in (reshuffle, redistribute)
        ]
        proven = validate(planned, planned.operator.task_id, values_after_planning)
    published = publish_result(planned, **form_arguments)
    announce_task = announce(planned, **form_arguments)
    chain(inspected, planned, approve_task, moving_tasks, proven, published, announce_task)
    chain(approve_task, rejection)
    return RescaleTasks(inspected, published, [announce_task, rejection])


def plan_only_graph() -> None:
    """Create the tasks of a run that only plans."""
    chain(inspect(None), [look(), check()])


def savepoint_graph() -> None:
    """Create the tasks of a rescale whose source the form names."""
    chain(rescale_graph().last, end_task(after_publication=[ANNOUNCE]))


def task_group_graph(values: Mapping[str, Any]) -> None:
    """Create the tasks of a rescale in the task group that is open. `values` are the values of the form's fields."""
    chain(rescale_graph(values=values).last, group_end_task(params={name: values[name] for name in _ACCESS}))
