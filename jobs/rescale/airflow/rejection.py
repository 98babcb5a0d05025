"""Ends the run of a rejected plan: removes the staged files, and fails with an error about the target's state.

A plan that could not be made, or an approval task that a user marked as failed, does not count as a rejection.
"""

from __future__ import annotations

from typing import Any, NoReturn

from rescale.airflow.claims import claim_of_active_run
from rescale.airflow.steps.earlier_tasks import ASK_TASK, PLAN_ANSWER_KEY, PLAN_TASK, sibling_task_id
from rescale.airflow.steps.rescale_task import skip_task
from rescale.runstate.decisions import approval_of
from rescale.runstate.places import Places
from rescale.runstate.removal import discard
from rescale.runstate.states import State, digest_of_claim, state_of
from rescale.text.errors import RequestError
from rescale.text.units import counted

PUBLISHED_CLAUSE_BY_STATE = {
    State.PUBLISHED: "its result is published",
    State.GONE: "its result was published, and some of its files still exist",
    State.EMPTIED: "its result was published, and later deleted",
    State.PUBLISHING: "its result may have been published",
}
"""Clauses about a result that is published, or may have been published, by the state of its target."""


def unpublished_clause(target: str, digest: str) -> str:
    """Return the clause "nothing was published"; if the target does not show it, that the result may have been."""
    state = state_of(target, digest)
    return "the result may have been published" if state is State.PUBLISHING else "nothing was published"


def rejection_clause_of(ti: Any) -> str | None:
    """Return a clause on who rejected the plan, or that nobody answered in time; None if it was not rejected."""
    answer = ti.xcom_pull(task_ids=sibling_task_id(ti.task_id, ASK_TASK), key=PLAN_ANSWER_KEY)
    plan_output = ti.xcom_pull(task_ids=sibling_task_id(ti.task_id, PLAN_TASK))
    if answer is None or plan_output is None or answer["approved"] or answer["plan"] != plan_output["digest"]:
        return None
    return str(answer["words"])


def refuse_published(target: str, digest: str, rejection_clause: str) -> None:
    """Raise `RequestError` if the result of a rejected plan was published nevertheless, or may have been."""
    state = state_of(target, digest)
    if (published_clause := PUBLISHED_CLAUSE_BY_STATE.get(state)) is None:
        return
    raise RequestError(
        f"the plan was rejected, but {published_clause}: another run carried the plan out before the answer",
        path=target,
        expected="no result of this plan",
        found=rejection_clause,
        advice="find out who carried it out, do not start a job from the result, and delete the directory yourself",
    )


def end_rejected(ti: Any) -> NoReturn:
    """Remove the staged files of a rejected plan, and raise `RequestError`; skip the task if no plan was rejected."""
    if (rejection_clause := rejection_clause_of(ti)) is None:
        skip_task("nobody has rejected the plan")
    plan_output = ti.xcom_pull(task_ids=sibling_task_id(ti.task_id, PLAN_TASK))
    target, digest = plan_output["target"], plan_output["digest"]
    refuse_published(target, digest, rejection_clause)
    _refuse_approved(target, digest, rejection_clause)
    is_claimed = digest_of_claim(target) == digest
    active_claim = claim_of_active_run(target, ti) if is_claimed else None
    if active_claim is not None:
        raise RequestError(
            "the plan was rejected, and its result is not published; another run of the plan is still running, and "
            "cannot publish",
            path=target,
            found=f"{rejection_clause}; {active_claim}",
            advice="wait until that run has ended, then discard the staged files",
        )
    removed_files = discard(target).removed if is_claimed else ()
    raise RequestError(
        "the plan was rejected; nothing was published",
        path=target,
        found=rejection_clause,
        advice=f"the staged files are removed ({counted(len(removed_files), 'file')}): trigger another run",
    )


def _refuse_approved(target: str, digest: str, rejection_clause: str) -> None:
    """Raise `RequestError` if the plan was already approved in another run: that approval stands."""
    decision = approval_of(Places(target, digest)).decision
    if decision is not None and decision.approved:
        raise RequestError(
            "the plan was rejected in this run, but already approved in another run, which may carry it out",
            path=target,
            found=f"{rejection_clause}; {decision}",
            advice="to prevent that, mark the other run as failed and discard the staged files",
        )
