"""Rules on which plans need an approval, and the check that a plan has one.

The form can only add to the approvals that the settings of the platform require. The tasks that move, validate and
publish rely on the decision stored beside the target, so that nobody can approve a plan by marking tasks or editing
XComs. `runstate.states` has the rule for runs that need no approval while another run of the plan waits for one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rescale.airflow.settings import settings
from rescale.airflow.steps.earlier_tasks import ASK_TASK, PLAN_TASK, Summary, required_output
from rescale.text.errors import RequestError

if TYPE_CHECKING:
    from rescale.plan.plan import Plan

_BYTES_PER_GIGABYTE = 10**9


def approval_reason(plan: Plan, params: Mapping[str, Any]) -> str | None:
    """Return a clause on why a plan needs an approval, or None if it needs none."""
    from rescale.text.units import human_bytes

    plans_to_approve, surgery = settings().approval.required, plan.surgery
    written_bytes = plan.bytes_moved + plan.base_bytes
    if plans_to_approve.always:
        return "the settings of the platform require it for every plan"
    if (
        plans_to_approve.above_gigabytes is not None
        and written_bytes > plans_to_approve.above_gigabytes * _BYTES_PER_GIGABYTE
    ):
        limit_text = f"{plans_to_approve.above_gigabytes:g} GB"
        written_text = f"the plan writes {human_bytes(written_bytes)}"
        if plan.base_bytes:
            written_text = f"the plan and the rounds before it write {human_bytes(written_bytes)}"
        return f"the settings of the platform require it above {limit_text}, and {written_text}"
    if surgery.dropped or surgery.dropped_states:  # whatever `drops` in the settings says
        return "the plan drops operators or states"
    if surgery.old_rows:
        return "the plan drops old rows of states"
    if surgery.restarted:
        return "the plan runs finished subtasks again, which may read their input again"
    if plan.mixed_maxima:
        return "the plan gives operators different max parallelisms, which is wrong for chained operators"
    return "the form asks for it" if params["require_approval"] else None


def plan_to_execute(plan_output: Summary | None, params: Mapping[str, Any]) -> Plan:
    """Return the plan of the task `plan`. Raises `RequestError` if it needs an approval and has none.

    A plan whose result is already published needs no approval.
    """
    from rescale.runstate.decisions import approval_of
    from rescale.runstate.documents import load_plan
    from rescale.runstate.places import places_of
    from rescale.runstate.publication import was_published

    plan = load_plan(required_output(PLAN_TASK, plan_output)["plan"])
    reason = approval_reason(plan, params)
    decision = approval_of(places_of(plan)).decision if reason else None
    if reason is None or (decision is not None and decision.approved) or was_published(plan):
        return plan
    raise RequestError(
        "the plan was rejected" if decision is not None else "the plan needs an approval, and nobody has approved it",
        path=plan.target,
        expected=f"an approval: {reason}",
        found=decision or f"no answer in the task {ASK_TASK!r}",
        advice="trigger another run"
        if decision is not None
        else f"clear the task {ASK_TASK!r} and those after it, and answer its question",
    )
