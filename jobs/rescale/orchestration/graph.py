"""The one way that every rescale takes, as Airflow draws it."""

from __future__ import annotations

from typing import Any, NamedTuple

from airflow.sdk import TaskGroup, chain

from rescale.orchestration.approval import PlanApproval
from rescale.orchestration.ending import end_task
from rescale.orchestration.savepoint_tasks import (
    ANNOUNCE,
    Known,
    announce,
    inspect,
    look,
    plan,
    publish_result,
    redistribute,
    rejected,
    reshuffle,
    validate,
)
from rescale.orchestration.steps.earlier_tasks import ASK, Told


class Way(NamedTuple):
    """The first task of a rescale, the one that publishes, and those that nothing of it comes after."""

    first: Any
    published: Any
    last: list[Any]


def rescale_graph(known: Known = None, closes: Told | None = None) -> Way:
    """From looking into the source to the published result. A plan that is rejected leaves nothing.

    `known` is what earlier tasks find out, and `closes` when the plan must have been approved.
    """
    planned = plan(known)
    refused = rejected(planned)
    approved = PlanApproval(
        task_id=ASK,
        task_display_name="Approve the plan",
        doc_md="Waits until somebody has approved the plan; skipped if that was not asked for.",
        plan=planned.operator.task_id,
        on_reject=refused.operator.task_id,
        closes=closes,
    )
    with TaskGroup("move", prefix_group_id=False, group_display_name="Move and prove"):
        moved = [reshuffle(planned), redistribute(planned)]
        proven = validate(planned)
    inspected, published = inspect(known), publish_result(planned)
    told = announce(planned)
    chain(inspected, planned, approved, moved, proven, published, told)
    chain(approved, refused)
    return Way(inspected, published, [told, refused])


def look_graph() -> None:
    """A look into the source, and the plan that a run would carry out."""
    chain(inspect(None), look())


def savepoint_graph() -> None:
    """The rescale of a savepoint, whose source the form names."""
    chain(rescale_graph().last, end_task(then=[ANNOUNCE]))
