"""Whose a target is: the claim, and notes beside it, name runs of an Airflow, which knows whether they are alive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk.configuration import conf

from rescale.errors import RequestError
from rescale.target.runs import runs_under
from rescale.target.states import Claim, claim_on

_ALIVE = ["queued", "running"]


def this_run(dag_run: Any) -> dict[str, str]:
    """What a claim says of the run that makes it."""
    return {"airflow": _this_airflow(), "dag": dag_run.dag_id, "run": dag_run.run_id}


def refuse_what_a_live_run_claims(target: str, ti: Any, digest: str | None = None) -> None:
    """`RequestError` if a run of this Airflow that goes on claims the target, for another plan than this one."""
    alive = live_run(target, ti)
    if alive is None or alive.plan == digest:
        return
    raise RequestError(
        "the target is claimed, and the run that did it goes on",
        path=target,
        found=alive,
        advice="name another target, or wait for that run to end, or mark it as failed",
    )


def live_run(target: str, ti: Any) -> Claim | None:
    """The claim on the target with the name of a run under it that goes on, be it not this one, nor the first one."""
    claim = claim_on(target)
    if claim is None:
        return None
    alive = next((by for by in runs_under(claim, target) if _is_alive(by, ti)), None)
    return None if alive is None else claim._replace(by=alive, at=claim.at if alive == claim.by else None)


def _is_alive(by: Mapping[str, str], ti: Any) -> bool:
    if by.get("airflow") != _this_airflow() or (by.get("dag"), by.get("run")) == (ti.dag_id, ti.run_id):
        return False
    return bool(ti.get_dr_count(dag_id=by["dag"], run_ids=[by["run"]], states=_ALIVE))


def _this_airflow() -> str:
    return str(conf.get("api", "base_url", fallback="") or "")
