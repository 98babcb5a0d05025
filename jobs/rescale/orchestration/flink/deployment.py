"""A `FlinkDeployment`: read, and patched so that Flink's Kubernetes operator starts the job from a snapshot.

The operator redeploys when `spec.job.savepointRedeployNonce` changes, from `spec.job.initialSavepointPath`, whatever
state the job is in (`AbstractJobReconciler.redeployWithSavepoint`). All that is touched is these two, the job's
parallelism and state, and the option for the max parallelism: a merge patch, so the rights to get and patch are
enough. A specification that already says what is wanted is not patched again, unless the operator gave it up.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from rescale.errors import RequestError, RescaleError, StoreError
from rescale.flink.start import MAX_PARALLELISM_OPTION
from rescale.orchestration.flink.flink_access import open_kubernetes
from rescale.orchestration.flink.kinds import PatchDeployment

_KIND = ("flink.apache.org", "v1beta1")
_PLURAL = "flinkdeployments"
_GIVEN_UP = ("FAILED", "ROLLING_BACK", "ROLLED_BACK")
"""`ResourceLifecycleState`s that a redeployment does not come back from by itself."""

log = logging.getLogger(__name__)


class Wanted(msgspec.Struct, frozen=True):
    """The fields that are ours: None stands for a field that is not there."""

    snapshot: str | None
    parallelism: int | None
    max_parallelism: str | None


class Deployment(msgspec.Struct, frozen=True):
    """What a rescale needs to know of the resource. `reconciled` is the nonce that the operator has acted on."""

    fields: Wanted
    suspended: bool
    nonce: int | None
    reconciled: int | None
    job_id: str | None
    job_state: str | None
    lifecycle: str | None
    error: str | None


def read_deployment(where: PatchDeployment) -> Deployment:
    """`RequestError` if it is not there, may not be read, or runs no job of its own."""
    resource = _call(where, "get", lambda api, place: api.get_namespaced_custom_object(*place))
    spec, status = resource["spec"], resource.get("status") or {}
    job, job_status = spec.get("job"), status.get("jobStatus") or {}
    if job is None:
        raise RequestError(
            "the FlinkDeployment has no job: it is a session cluster",
            path=_place(where),
            advice="hand over to a session cluster by its jar, or name a deployment in application mode",
        )
    return Deployment(
        Wanted(job.get("initialSavepointPath"), job.get("parallelism"), _max_parallelism(where, spec)),
        job.get("state") == "suspended",
        job.get("savepointRedeployNonce"),
        _reconciled_nonce(status),
        job_status.get("jobId"),
        job_status.get("state"),
        status.get("lifecycleState"),
        status.get("error"),
    )


def check_patch(where: PatchDeployment) -> None:
    """`RequestError` if it may not be patched; nothing of it is changed."""
    _patch(where, {}, dry_run="All")


def redeploy(where: PatchDeployment, wanted: Wanted) -> int:
    """Makes the resource say what is wanted; returns its nonce."""
    found = read_deployment(where)
    said = found.fields == wanted and not found.suspended and found.nonce is not None
    if said and not (found.reconciled == found.nonce and found.lifecycle in _GIVEN_UP):
        return found.nonce or 0
    nonce = (found.nonce or 0) + 1
    job = {
        "initialSavepointPath": wanted.snapshot,
        "parallelism": wanted.parallelism,
        "savepointRedeployNonce": nonce,
        "state": "running",
    }
    _patch(where, {"spec": {"job": job, "flinkConfiguration": {MAX_PARALLELISM_OPTION: wanted.max_parallelism}}})
    return nonce


def is_redeployed(where: PatchDeployment, nonce: int) -> bool:
    """Whether the operator has started the job as `redeploy` asked, and sees it run; an error if it gave it up."""
    found = read_deployment(where)
    if found.nonce != nonce:
        raise RescaleError(
            "somebody else has redeployed the FlinkDeployment",
            path=_place(where),
            expected=f"savepointRedeployNonce {nonce}",
            found=found.nonce,
        )
    if found.reconciled != nonce:
        if found.error:
            log.warning("Flink's operator says: %s", found.error)
        return False
    if found.lifecycle in _GIVEN_UP:
        raise RescaleError(
            "Flink's operator could not start the job from the snapshot",
            path=_place(where),
            expected="a job that runs",
            found=f"{found.lifecycle}: {found.error or 'no reason is given'}",
            advice="look at the events of the resource and at the JobManager's log",
        )
    return found.job_state in ("RUNNING", "FINISHED")


def _max_parallelism(where: PatchDeployment, spec: dict[str, Any]) -> str | None:
    """Text, even where the resource has a number."""
    options = spec.get("flinkConfiguration") or {}
    section, _, name = MAX_PARALLELISM_OPTION.partition(".")
    if name in (options.get(section) or {}):
        raise RequestError(
            "the FlinkDeployment nests its options, and this one would be there twice",
            path=_place(where),
            expected=f"flinkConfiguration with {MAX_PARALLELISM_OPTION!r} on a line of its own",
            found=f"{section!r} with {name!r} below it",
        )
    value = options.get(MAX_PARALLELISM_OPTION)
    return None if value is None else str(value)


def _reconciled_nonce(status: dict[str, Any]) -> int | None:
    """`ReconciliationStatus.lastReconciledSpec` is JSON in a string; the specification is wrapped in it."""
    text = (status.get("reconciliationStatus") or {}).get("lastReconciledSpec")
    document = json.loads(text) if text else {}
    job = (document.get("spec") or document).get("job") or {}
    nonce: int | None = job.get("savepointRedeployNonce")
    return nonce


def _patch(where: PatchDeployment, patch: dict[str, Any], **more: str) -> None:
    more["_content_type"] = "application/merge-patch+json"
    _call(where, "patch", lambda api, place: api.patch_namespaced_custom_object(*place, patch, **more))


def _call(where: PatchDeployment, verb: str, function: Callable[[Any, tuple[str, ...]], Any]) -> dict[str, Any]:
    from kubernetes.client import ApiException
    from urllib3.exceptions import HTTPError

    place = (*_KIND, where.namespace, _PLURAL, where.name)
    try:
        document: dict[str, Any] = function(open_kubernetes(where.connection), place)
    except HTTPError as error:
        raise StoreError("Kubernetes cannot be reached", path=_place(where), found=error) from None
    except ApiException as error:
        found = f"status {error.status}: {_message(error)}"
        if error.status in (409, 429) or error.status >= 500:
            raise StoreError("Kubernetes has trouble", path=_place(where), found=found) from None
        advice = {
            403: f"give the service account the right to {verb} {_PLURAL} in this namespace",
            404: "look at namespace and name, and whether Flink's Kubernetes operator is installed",
        }
        raise RequestError(
            f"Kubernetes refuses to {verb} the FlinkDeployment",
            path=_place(where),
            found=found,
            advice=advice.get(error.status),
        ) from None
    return document


def _message(error: Any) -> str:
    try:
        return str(json.loads(error.body)["message"])
    except (ValueError, KeyError, TypeError):
        return str(error.reason)


def _place(where: PatchDeployment) -> str:
    return f"{where.namespace}/{where.name}"
