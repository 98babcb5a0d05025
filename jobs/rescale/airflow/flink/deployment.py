"""Read a `FlinkDeployment` or a `FlinkSessionJob`, and patch it: Flink's operator then starts the job from a snapshot.

When `spec.job.savepointRedeployNonce` changes, the operator redeploys the job from `spec.job.initialSavepointPath`,
whatever state the job is in (`AbstractJobReconciler.redeployWithSavepoint`). One merge patch changes these two fields,
the job's parallelism and state, and Flink's options. So the rights to get and patch the resource are enough. A
specification that is already as desired is not patched again, unless the operator has stopped trying to apply it.

A patch names the version of the resource that it was made for, so Kubernetes refuses a patch that arrives late, after
another patch. Without the version, the late patch would change the specification, and the operator would not redeploy
the job, because the other patch has already set the same nonce.

The operator's autoscaler remembers parallelisms of single vertices, which would outlive the redeployment. A new
`spec.job.autoscalerResetNonce` makes the autoscaler forget them. Releases before 1.10 do not know this field, and
Kubernetes drops it. Releases before 1.8 do not know `savepointRedeployNonce`, so a run refuses their resources.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from rescale.airflow.flink.flink_access import open_kubernetes
from rescale.airflow.hand_overs import PatchDeployment
from rescale.flink.start import CLAIM_MODE_OPTIONS, MAX_PARALLELISM_OPTION, NO_CLAIM
from rescale.text.errors import RequestError, RescaleError, StoreError

_GROUP_AND_VERSION = ("flink.apache.org", "v1beta1")
_PLURAL_BY_KIND = {"FlinkDeployment": "flinkdeployments", "FlinkSessionJob": "flinksessionjobs"}
_GIVEN_UP_STATES = ("FAILED", "ROLLING_BACK", "ROLLED_BACK")
"""Values of `ResourceLifecycleState` from which a redeployment does not recover by itself."""

_SECONDS_TO_ANSWER = 30
"""Timeout of a request in seconds; without a timeout, the client would wait for ever for an API server that hangs."""

_AUTOSCALER_OPTION = "job.autoscaler.enabled"
_OVERRIDES_OPTION = "pipeline.jobvertex-parallelism-overrides"
"""Option with the parallelism of single vertices (`PipelineOptions.PARALLELISM_OVERRIDES`)."""

log = logging.getLogger(__name__)


class DeploymentSpec(msgspec.Struct, frozen=True):
    """Fields of the specification that a rescale sets; None for an absent field.

    `snapshot` is the URI of the snapshot that the job starts from (`initialSavepointPath`). With `no_claim`, Flink's
    options say that the job does not own the files of the snapshot (`RecoveryClaimMode`).
    """

    snapshot: str | None
    parallelism: int | None
    max_parallelism: str | None
    no_claim: bool = False


class Deployment(msgspec.Struct, frozen=True):
    """State of a FlinkDeployment or FlinkSessionJob.

    `nonce` is the `savepointRedeployNonce` of its specification, and `reconciled_nonce` the one that Flink's operator
    has acted on. `autoscaler_nonce` is its `autoscalerResetNonce`. `resource_version` is its `resourceVersion` in
    Kubernetes.
    """

    spec: DeploymentSpec
    is_suspended: bool
    nonce: int | None
    reconciled_nonce: int | None
    job_id: str | None
    job_state: str | None
    lifecycle_state: str | None
    error: str | None
    autoscaler_nonce: int | None
    resource_version: str | None


class _JobSpec(msgspec.Struct, frozen=True, rename="camel"):
    """`JobSpec` of Flink's operator."""

    initial_savepoint_path: str | None = None
    parallelism: int | None = None
    state: str | None = None
    savepoint_redeploy_nonce: int | None = None
    autoscaler_reset_nonce: int | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    """`FlinkDeploymentSpec` or `FlinkSessionJobSpec`.

    `flink_configuration` may have options as flat keys (`a.b: x`) or as nested maps (`a: {b: x}`).
    """

    job: _JobSpec | None = None
    flink_configuration: dict[str, object] | None = None


class _JobStatus(msgspec.Struct, frozen=True, rename="camel"):
    job_id: str | None = None
    state: str | None = None


class _ReconciliationStatus(msgspec.Struct, frozen=True, rename="camel"):
    """`ReconciliationStatus`; the last specification is JSON in a string."""

    last_reconciled_spec: str | None = None


class _ReconciledSpec(_Spec, frozen=True, rename="camel"):
    """Content of `last_reconciled_spec`: a specification, or an object that has one."""

    spec: _Spec | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    job_status: _JobStatus | None = None
    lifecycle_state: str | None = None
    error: str | None = None
    reconciliation_status: _ReconciliationStatus | None = None


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str | None = None


class _Resource(msgspec.Struct, frozen=True):
    spec: _Spec
    metadata: _Metadata = _Metadata()
    status: _Status | None = None


def read_deployment(hand_over: PatchDeployment) -> Deployment:
    """Read the resource of a hand-over.

    Raises `RequestError` if it does not exist, may not be read, or is a session cluster.
    """
    resource = _call_kubernetes(hand_over, "get")
    spec, status = resource.spec, resource.status or _Status()
    job, job_status = spec.job, status.job_status or _JobStatus()
    if job is None:
        raise RequestError(
            "the FlinkDeployment is a session cluster, which has no job of its own",
            path=hand_over.full_name,
            advice="hand over by a jar instead; or name a FlinkDeployment in application mode, or the job's "
            "FlinkSessionJob (flinksessionjob/namespace/name)",
        )
    deployment_spec = DeploymentSpec(
        job.initial_savepoint_path,
        job.parallelism,
        _max_parallelism(hand_over, spec),
        no_claim=all(_option(spec, name) == NO_CLAIM for name in CLAIM_MODE_OPTIONS),
    )
    return Deployment(
        spec=deployment_spec,
        is_suspended=job.state == "suspended",
        nonce=job.savepoint_redeploy_nonce,
        reconciled_nonce=_reconciled_nonce(status),
        job_id=job_status.job_id,
        job_state=job_status.state,
        lifecycle_state=status.lifecycle_state,
        error=status.error,
        autoscaler_nonce=job.autoscaler_reset_nonce,
        resource_version=resource.metadata.resource_version,
    )


def claim_mode(hand_over: PatchDeployment) -> str | None:
    """Return the claim mode that the resource sets (`RecoveryClaimMode`), or None."""
    spec = _call_kubernetes(hand_over, "get").spec
    modes = [_option(spec, name) for name in CLAIM_MODE_OPTIONS]
    return next((str(mode) for mode in modes if mode is not None), None)


def check_patch(hand_over: PatchDeployment) -> None:
    """Raise `RequestError` if the resource cannot be redeployed, or if it fixes parallelisms of vertices."""
    resource = _try_redeployment(hand_over, read_deployment(hand_over))
    if (overrides := _option(resource.spec, _OVERRIDES_OPTION)) is not None:
        raise RequestError(
            f"the {hand_over.resource} sets the parallelism of single vertices, which would outlive the rescale",
            path=hand_over.full_name,
            found=f"{_OVERRIDES_OPTION}: {overrides}",
            advice="remove that option from its flinkConfiguration",
        )
    if str(_option(resource.spec, _AUTOSCALER_OPTION)).lower() == "true":
        log.warning(
            "Flink's operator scales this job (%s). The hand-over makes the operator forget its decisions so far "
            "(autoscalerResetNonce, from release 1.10 of the operator on). So the job starts in the shape of the plan; "
            "later the operator may change the parallelism again",
            _AUTOSCALER_OPTION,
        )


def _try_redeployment(hand_over: PatchDeployment, deployment: Deployment) -> _Resource:
    """Return the resource after a dry run of a redeployment.

    Raises `RequestError` if Kubernetes refuses the redeployment, or drops the nonce. Kubernetes drops fields that the
    custom resource definition does not have, and Helm does not update definitions when it updates the operator. Without
    the nonce, the operator would take the patch for a plain upgrade, and start the job from another snapshot than the
    one in the patch, or without state.
    """
    nonce = (deployment.nonce or 0) + 1
    job_patch = {
        "initialSavepointPath": deployment.spec.snapshot or "file:///savepoint",
        "savepointRedeployNonce": nonce,
    }
    resource = _patch_resource(hand_over, {"spec": {"job": job_patch}}, dry_run="All")
    if resource.spec.job is None or resource.spec.job.savepoint_redeploy_nonce != nonce:
        raise RequestError(
            "Kubernetes would drop the field that lets Flink's operator start the job from a snapshot",
            path=hand_over.full_name,
            expected="spec.job.savepointRedeployNonce in the custom resource definition (release 1.8 of the operator)",
            found="a definition without this field",
            advice="update Flink's operator and its custom resource definitions (Helm leaves these alone), or "
            "choose to print the command",
        )
    return resource


def redeploy(hand_over: PatchDeployment, new_spec: DeploymentSpec) -> int:
    """Patch the resource so that it has `new_spec`, unless it has it already. Return the nonce of the redeployment."""
    deployment = read_deployment(hand_over)
    accepted_specs = (new_spec, msgspec.structs.replace(new_spec, no_claim=True))
    has_new_spec = deployment.spec in accepted_specs and not deployment.is_suspended and deployment.nonce is not None
    if has_new_spec and not (
        deployment.reconciled_nonce == deployment.nonce and deployment.lifecycle_state in _GIVEN_UP_STATES
    ):
        return deployment.nonce or 0
    if deployment.nonce is None:
        _try_redeployment(hand_over, deployment)
    nonce = (deployment.nonce or 0) + 1
    job_patch = {
        "initialSavepointPath": new_spec.snapshot,
        "parallelism": new_spec.parallelism,
        "savepointRedeployNonce": nonce,
        "autoscalerResetNonce": (deployment.autoscaler_nonce or 0) + 1,
        "state": "running",
    }
    options_patch = {MAX_PARALLELISM_OPTION: new_spec.max_parallelism}
    if new_spec.no_claim:
        options_patch |= dict.fromkeys(CLAIM_MODE_OPTIONS, NO_CLAIM)
    metadata_patch = {} if deployment.resource_version is None else {"resourceVersion": deployment.resource_version}
    _patch_resource(
        hand_over, {"metadata": metadata_patch, "spec": {"job": job_patch, "flinkConfiguration": options_patch}}
    )
    return nonce


def is_redeployed(hand_over: PatchDeployment, nonce: int) -> bool:
    """Return whether the operator has redeployed the job for this nonce, and the job runs or has finished.

    Raises `RescaleError` if the operator gave up, or if somebody else has redeployed the resource.
    """
    deployment = read_deployment(hand_over)
    if deployment.nonce != nonce:
        raise RescaleError(
            f"somebody else has redeployed the {hand_over.resource}",
            path=hand_over.full_name,
            expected=f"savepointRedeployNonce {nonce}",
            found=deployment.nonce,
        )
    if deployment.reconciled_nonce != nonce:
        if deployment.error:
            log.warning("Flink's operator reports: %s", deployment.error)
        return False
    if deployment.lifecycle_state in _GIVEN_UP_STATES:
        raise RescaleError(
            "Flink's operator could not start the job from the snapshot",
            path=hand_over.full_name,
            expected="a running job",
            found=f"{deployment.lifecycle_state}: {deployment.error or 'no reason is given'}",
            advice="look at the events of the resource and at the JobManager's log",
        )
    return deployment.job_state in ("RUNNING", "FINISHED")


def _option(spec: _Spec, name: str) -> object:
    """Return an option of the specification, whose name may be flat or nested; None if it is not set."""

    def find_option(options: object, name: str) -> object:
        if not isinstance(options, dict):
            return None
        if name in options:
            return options[name]
        nested_values = (
            find_option(value, name.removeprefix(f"{section}."))
            for section, value in options.items()
            if name.startswith(f"{section}.")
        )
        return next((value for value in nested_values if value is not None), None)

    return find_option(spec.flink_configuration, name)


def _max_parallelism(hand_over: PatchDeployment, spec: _Spec) -> str | None:
    """Return the option for the max parallelism as text, even if the resource has a number; None if it is not set.

    Raises `RequestError` if the option is nested, because a patch would set it twice.
    """
    options = spec.flink_configuration or {}
    section, _, name = MAX_PARALLELISM_OPTION.partition(".")
    nested_options = options.get(section)
    if isinstance(nested_options, dict) and name in nested_options:
        raise RequestError(
            f"the {hand_over.resource} nests the option for the max parallelism, so a patch would set it twice",
            path=hand_over.full_name,
            expected=f"flinkConfiguration with the flat key {MAX_PARALLELISM_OPTION!r}",
            found=f"{name!r} nested below {section!r}",
            advice="write the option as a flat key",
        )
    option_value = options.get(MAX_PARALLELISM_OPTION)
    return None if option_value is None else str(option_value)


def _reconciled_nonce(status: _Status) -> int | None:
    """Return the nonce of the last specification that the operator has reconciled."""
    if status.reconciliation_status is None or not status.reconciliation_status.last_reconciled_spec:
        return None
    reconciled = msgspec.json.decode(status.reconciliation_status.last_reconciled_spec, type=_ReconciledSpec)
    job = (reconciled.spec or reconciled).job
    return None if job is None else job.savepoint_redeploy_nonce


def _patch_resource(hand_over: PatchDeployment, patch: Mapping[str, object], **keywords: str) -> _Resource:
    return _call_kubernetes(hand_over, "patch", patch, _content_type="application/merge-patch+json", **keywords)


def _call_kubernetes(hand_over: PatchDeployment, verb: str, *arguments: object, **keywords: object) -> _Resource:
    """Call a method of `CustomObjectsApi`, and return the resource in its answer."""
    from kubernetes.client import ApiException
    from urllib3.exceptions import HTTPError

    plural = _PLURAL_BY_KIND[hand_over.resource]
    resource_path = (*_GROUP_AND_VERSION, hand_over.namespace, plural, hand_over.name)
    try:
        method = getattr(open_kubernetes(hand_over.connection), f"{verb}_namespaced_custom_object")
        document = method(*resource_path, *arguments, **keywords, _request_timeout=_SECONDS_TO_ANSWER)
    except HTTPError as error:
        raise StoreError("Kubernetes cannot be reached", path=hand_over.full_name, found=error) from None
    except ApiException as error:
        status_text = f"status {error.status}: {_error_message(error)}"
        if error.status in (409, 429) or error.status >= 500:
            raise StoreError(
                "Kubernetes has a temporary problem", path=hand_over.full_name, found=status_text
            ) from None
        advice_by_status = {
            403: f"give the service account the right to {verb} {plural} in this namespace",
            404: "check namespace and name, and whether Flink's Kubernetes operator is installed",
        }
        raise RequestError(
            f"Kubernetes refuses to {verb} the {hand_over.resource}",
            path=hand_over.full_name,
            found=status_text,
            advice=advice_by_status.get(error.status),
        ) from None
    try:
        return msgspec.convert(document, _Resource)
    except msgspec.ValidationError as error:
        raise RequestError(
            f"this {hand_over.resource} does not belong to Flink's Kubernetes operator",
            path=hand_over.full_name,
            expected="the fields of flink.apache.org/v1beta1",
            found=error,
        ) from None


def _error_message(error: Any) -> str:
    try:
        return str(json.loads(error.body)["message"])
    except (ValueError, KeyError, TypeError):
        return str(error.reason)
