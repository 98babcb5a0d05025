"""The one way that every rescale takes, as Airflow draws it."""

from __future__ import annotations

from typing import Any

from airflow.sdk import TaskGroup, chain

from rescale.orchestration.approval import PlanApproval
from rescale.orchestration.tasks import (
    discard_staged,
    inspect,
    plan,
    publish_result,
    redistribute,
    reshuffle,
    validate,
)


def rescale_graph(known: Any = None, closes: str | None = None) -> tuple[Any, Any]:
    """From looking into the source to the published result: the first task and the last.

    A plan that is rejected leaves nothing. `known` is what an earlier task found out: source, target or both. `closes`
    is a template of when the plan must have been approved.
    """
    planned = plan(known)
    discarded = discard_staged(planned)
    approved = PlanApproval(
        task_id="approve",
        task_display_name="Approve the plan",
        doc_md="Waits until somebody has approved the plan, if that was asked for.",
        plan=planned.operator.task_id,
        on_reject=discarded.operator.task_id,
        closes=closes,
    )
    with TaskGroup("move", prefix_group_id=False, group_display_name="Move and prove"):
        moved = [reshuffle(planned), redistribute(planned)]
        proven = validate(planned)
    inspected, published = inspect(known), publish_result(planned)
    chain(inspected, planned, approved, moved, proven, published)
    chain(approved, discarded)
    return inspected, published
