"""Checks of what this pod may do in its namespace: start executors as a driver, or start drivers as Airflow does.

Every service account may ask the API server whether it has a right (`SelfSubjectAccessReview`).
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rescale.doctor.checks import CheckList, PendingCheck
from rescale.text.errors import StoreError

if TYPE_CHECKING:
    import httpx

Rights = Mapping[str, tuple[str, ...]]
"""Verbs by resource, such as `pods`, or `pods/log` for a subresource."""

DRIVER_RIGHTS: Rights = {"pods": ("create", "get", "list", "watch", "delete", "deletecollection")}
"""Rights with which Spark's driver starts executors: those of the chart's Role of drivers."""

AIRFLOW_RIGHTS: Rights = {
    "pods": ("create", "get", "list", "watch", "patch", "delete"),
    "pods/log": ("get",),
    "events": ("list", "watch"),
}
"""Rights with which tasks of Airflow start drivers and follow them: those of the chart's Role of Airflow."""

ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes puts the token and the namespace of a pod's service account, and the API server's CA certificate."""

_REVIEWS_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_SUBJECT = "Kubernetes rights"
_ADVICE = "bind the pod's service account to a Role with these rights, as the chart does"
_TIMEOUT_SECONDS = 10


def check_executor_rights(checks: CheckList) -> None:
    """Check whether a driver in this pod could start executors. Outside of a pod there is nothing to check."""
    _check(
        checks,
        DRIVER_RIGHTS,
        "a driver in this pod can start executors",
        "steps that run only in this pod need none of them",
    )


def check_driver_rights(checks: CheckList) -> None:
    """Check whether tasks of Airflow in this pod could start drivers; a missing right is an error."""
    _check(checks, AIRFLOW_RIGHTS, "tasks in this pod can start drivers and follow them", None)


def _check(checks: CheckList, rights: Rights, meaning: str, meaning_if_missing: str | None) -> None:
    """Check all `rights`; missing ones are a warning, or an error if `meaning_if_missing` is None."""
    if not (ACCOUNT_FOLDER / "token").is_file() or "KUBERNETES_SERVICE_HOST" not in os.environ:
        return
    tried = f"ask {_api_address()} for rights"
    with checks.trying(_SUBJECT, tried, f"it is unknown whether {meaning}"):
        namespace = (ACCOUNT_FOLDER / "namespace").read_text().strip()
        check = PendingCheck(checks, _SUBJECT, f"{tried} in the namespace {namespace}")
        if not (missing_rights := _missing_rights(rights, namespace)):
            check.ok("all granted", meaning)
        elif meaning_if_missing is not None:
            check.warn(f"missing: {', '.join(missing_rights)}", meaning_if_missing, _ADVICE)
        else:
            check.fail(f"missing: {', '.join(missing_rights)}", f"needed so that {meaning}", _ADVICE)


def _api_address() -> str:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    return f"https://{f'[{host}]' if ':' in host else host}:{port}"


def _missing_rights(rights: Rights, namespace: str) -> list[str]:
    """Return the missing rights, such as `create pods`. Raises `StoreError` if the API server does not answer."""
    import httpx  # slow to import

    token = (ACCOUNT_FOLDER / "token").read_text().strip()
    ssl_context = ssl.create_default_context(cafile=str(ACCOUNT_FOLDER / "ca.crt"))
    headers = {"Authorization": f"Bearer {token}"}
    try:
        with httpx.Client(
            base_url=_api_address(), headers=headers, verify=ssl_context, timeout=_TIMEOUT_SECONDS
        ) as api:
            return [
                f"{verb} {resource}"
                for resource, verbs in rights.items()
                for verb in verbs
                if not _is_allowed(api, namespace, verb, resource)
            ]
    except httpx.HTTPError as error:
        raise StoreError(
            "the API server of Kubernetes gives no answer",
            path=_api_address() + _REVIEWS_PATH,
            found=str(error) or type(error).__name__,
            advice="check that this pod's network policies allow it",
        ) from None


def _is_allowed(api: httpx.Client, namespace: str, verb: str, resource: str) -> bool:
    name, _, subresource = resource.partition("/")
    attributes = {"namespace": namespace, "verb": verb, "resource": name, "subresource": subresource}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    answer = api.post(_REVIEWS_PATH, json={**review, "spec": {"resourceAttributes": attributes}})
    is_allowed: bool = answer.raise_for_status().json()["status"]["allowed"]
    return is_allowed
