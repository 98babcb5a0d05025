"""Finds live runs that have claimed a target.

A claim names an Airflow and a run, and only that Airflow knows whether the run is still alive.
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

_LIVE_STATES = ["queued", "running"]


def this_run(dag_run: Any) -> dict[str, str]:
    """Return the names of Airflow, DAG and run that claims contain, to say which run has made the claim."""
    return {"airflow": _url_of_this_airflow(), "dag": dag_run.dag_id, "run": dag_run.run_id}


def refuse_live_claim(target: str, ti: Any, digest: str | None = None) -> None:
    """Raise `RequestError` if a live run of this Airflow claims the target for another plan than `digest`."""
    live_claim = claim_of_live_run(target, ti)
    if live_claim is None or live_claim.plan == digest:
        return
    raise RequestError(
        "another run has claimed the target and is still running",
        path=target,
        found=live_claim,
        advice="name another target, wait for that run to end, or mark it as failed",
    )


def refuse_pending_approval(plan: Plan, ti: Any) -> None:
    """Raise `RequestError` if another live run of this Airflow waits for the approval of this plan."""
    question, decision = approval_of(places_of(plan))
    if question is not None and decision is None and _is_alive(question.by, ti):
        raise RequestError(
            "another run already waits for the approval of this plan",
            path=plan.target,
            expected="one run that asks for the approval of a plan",
            found=question,
            advice="answer in that run; or mark that run as failed and trigger this one again",
        )


def claim_of_live_run(target: str, ti: Any) -> Claim | None:
    """Return the claim on the target if a live run works under it; None otherwise.

    The returned claim names that live run, because several runs may work under one claim. The run of `ti` itself is
    ignored.
    """
    claim = claim_on(target)
    if claim is None:
        return None
    live_run = next((run for run in runs_under(claim, target) if _is_alive(run, ti)), None)
    return None if live_run is None else claim._replace(by=live_run, at=claim.at if live_run == claim.by else None)


def _is_alive(run_identity: Mapping[str, str], ti: Any) -> bool:
    dag_and_run = run_identity.get("dag"), run_identity.get("run")
    if run_identity.get("airflow") != _url_of_this_airflow() or dag_and_run == (ti.dag_id, ti.run_id):
        return False
    return bool(ti.get_dr_count(dag_id=run_identity["dag"], run_ids=[run_identity["run"]], states=_LIVE_STATES))


def _url_of_this_airflow() -> str:
    return str(conf.get("api", "base_url", fallback="") or "")
