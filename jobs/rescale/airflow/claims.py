"""Finds active runs that have claimed a target.

A claim names an Airflow and a run, and only that Airflow knows whether the run is still active.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.providers.common.compat.sdk import conf

from rescale.plan.plan import Plan
from rescale.runstate.decisions import approval_of
from rescale.runstate.places import places_of
from rescale.runstate.runs import runs_under
from rescale.runstate.states import Claim, claim_on
from rescale.text.errors import RequestError

_ACTIVE_STATES = ["queued", "running"]


def identity_of_run(dag_run: Any) -> dict[str, str]:
    """Return the URL of this Airflow and the ids of DAG and run, by which a claim names the run that made it."""
    return {"airflow": _url_of_this_airflow(), "dag": dag_run.dag_id, "run": dag_run.run_id}


def refuse_active_claim(target: str, ti: Any, digest: str | None = None) -> None:
    """Raise `RequestError` if an active run of this Airflow claims the target for another plan than `digest`."""
    active_claim = claim_of_active_run(target, ti)
    if active_claim is None or active_claim.plan_digest == digest:
        return
    raise RequestError(
        "another run has claimed the target and is still running",
        path=target,
        found=active_claim,
        advice="name another target, wait for that run to end, or mark it as failed",
    )


def refuse_pending_approval(plan: Plan, ti: Any) -> None:
    """Raise `RequestError` if another active run of this Airflow waits for the approval of this plan."""
    question, decision = approval_of(places_of(plan))
    if question is not None and decision is None and _is_active(question.by, ti):
        raise RequestError(
            "another run already waits for the approval of this plan",
            path=plan.target,
            expected="one run that asks for the approval of a plan",
            found=question,
            advice="answer in that run; or mark that run as failed and trigger this one again",
        )


def claim_of_active_run(target: str, ti: Any) -> Claim | None:
    """Return the claim on the target if an active run uses it; None otherwise. The run of `ti` itself is ignored.

    Several runs of one plan use the same claim; the returned claim names the active run, not the one that made it.
    """
    claim = claim_on(target)
    if claim is None:
        return None
    active_run = next((run for run in runs_under(claim, target) if _is_active(run, ti)), None)
    if active_run is None:
        return None
    return claim._replace(by=active_run, at=claim.at if active_run == claim.by else None)


def _is_active(run_identity: Mapping[str, str], ti: Any) -> bool:
    dag_and_run = run_identity.get("dag"), run_identity.get("run")
    if run_identity.get("airflow") != _url_of_this_airflow() or dag_and_run == (ti.dag_id, ti.run_id):
        return False
    return bool(ti.get_dr_count(dag_id=run_identity["dag"], run_ids=[run_identity["run"]], states=_ACTIVE_STATES))


def _url_of_this_airflow() -> str:
    return str(conf.get("api", "base_url", fallback="") or "")
