"""A real API server tells `rescale doctor` what the service account of a pod may do."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from kubernetes.config import kube_config

from rescale.doctor import pod_rights
from rescale.doctor.checks import CheckList, CheckOutcome
from rescale.doctor.pod_rights import AIRFLOW_RIGHTS, DRIVER_RIGHTS, check_driver_rights, check_executor_rights
from support.cluster import Namespace

pytestmark = pytest.mark.slow


def act_as(space: Namespace, account: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give this process what Kubernetes gives the pods of a service account."""
    api = kube_config.new_client_from_config().configuration
    (folder / "token").write_text(space.kubectl("create", "token", account))
    (folder / "namespace").write_text(space.name)
    (folder / "ca.crt").write_bytes(Path(api.ssl_ca_cert).read_bytes())
    address = urlsplit(api.host)
    monkeypatch.setattr(pod_rights, "ACCOUNT_FOLDER", folder)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(address.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(address.port))


def create_account(space: Namespace, name: str, rights: pod_rights.Rights) -> None:
    space.kubectl("create", "serviceaccount", name)
    for number, (resource, verbs) in enumerate(rights.items()):
        role = f"{name}-{number}"
        space.kubectl("create", "role", role, f"--resource={resource}", f"--verb={','.join(verbs)}")
        space.kubectl("create", "rolebinding", role, f"--role={role}", f"--serviceaccount={space.name}:{name}")


@pytest.mark.parametrize(
    ("name", "rights", "executors", "drivers"),
    [
        ("doctor-driver", DRIVER_RIGHTS, None, "patch pods, get pods/log, list events, watch events"),
        ("doctor-airflow", AIRFLOW_RIGHTS, "deletecollection pods", None),
        ("doctor-reader", {"pods": ("get", "list", "watch")}, "create pods, delete pods, deletecollection pods", ""),
    ],
)
def test_missing_rights_are_named(
    space: Namespace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    rights: pod_rights.Rights,
    executors: str | None,
    drivers: str | None,
) -> None:
    create_account(space, name, rights)
    act_as(space, name, tmp_path, monkeypatch)
    check_executor_rights(checks := CheckList())
    check_driver_rights(checks)
    of_executors, of_drivers = checks.done
    if executors is None:
        assert (of_executors.outcome, of_executors.result) == (CheckOutcome.OK, "all granted")
    else:
        assert (of_executors.outcome, of_executors.result) == (CheckOutcome.WARNING, f"missing: {executors}")
    if drivers is None:
        assert (of_drivers.outcome, of_drivers.result) == (CheckOutcome.OK, "all granted")
    else:
        assert of_drivers.outcome is CheckOutcome.ERROR
        assert drivers in of_drivers.result
