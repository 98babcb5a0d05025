"""Checks of a pod's rights, where there is no API server; `tests/k8s` has those with one."""

from __future__ import annotations

from pathlib import Path

import certifi
import pytest

from rescale.demo.processes import free_port
from rescale.doctor import pod_rights
from rescale.doctor.checks import CheckList, CheckOutcome
from rescale.doctor.pod_rights import check_driver_rights, check_executor_rights


def test_nothing_is_checked_outside_of_a_pod() -> None:
    check_executor_rights(checks := CheckList())
    check_driver_rights(checks)
    assert checks.done == []


def test_api_server_that_does_not_answer_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("a-token")
    (tmp_path / "namespace").write_text("flink")
    (tmp_path / "ca.crt").write_bytes(Path(certifi.where()).read_bytes())
    port = free_port()
    monkeypatch.setattr(pod_rights, "ACCOUNT_FOLDER", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(port))
    check_executor_rights(checks := CheckList())
    (check,) = checks.done
    assert check.outcome is CheckOutcome.ERROR
    assert check.result.startswith("the API server of Kubernetes gives no answer")
    assert f"https://[::1]:{port}" in check.tried
