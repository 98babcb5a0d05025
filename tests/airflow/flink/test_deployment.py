"""A FlinkDeployment that may be read and not patched is refused while its job runs, as a stand-in's answers have it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from kubernetes.client import ApiException

from rescale.airflow.flink import deployment
from rescale.airflow.flink.deployment import Wanted, redeploy
from rescale.airflow.flink.hand_overs import PatchDeployment
from rescale.airflow.flink.starting import check_hand_over, start_job
from rescale.flink.start import Start
from rescale.text.errors import RequestError

WHERE = PatchDeployment("flink", "clicks")


@pytest.fixture
def resource() -> dict[str, Any]:
    return {"spec": {"job": {"parallelism": 2}}}


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch, resource: dict[str, Any]) -> Mock:
    """Return the mock that takes the request to Kubernetes to patch a FlinkDeployment."""
    patch = Mock(return_value=resource)
    api = SimpleNamespace(get_namespaced_custom_object=lambda *_: resource, patch_namespaced_custom_object=patch)
    monkeypatch.setattr(deployment, "open_kubernetes", lambda _: api)
    return patch


def test_who_may_read_and_not_patch_is_refused_before_anything_is_stopped(patch: Mock) -> None:
    patch.side_effect = ApiException(403, "Forbidden")
    with pytest.raises(RequestError, match="Kubernetes refuses to patch") as caught:
        check_hand_over(WHERE)
    assert "give the service account the right to patch flinkdeployments" in str(caught.value)


def test_to_find_that_out_changes_nothing(patch: Mock) -> None:
    check_hand_over(WHERE)
    (called,) = patch.call_args_list
    assert (called.args[-1], called.kwargs["dry_run"]) == ({}, "All")


@pytest.mark.parametrize("refers", [True, False])
def test_a_job_does_not_claim_what_its_result_refers_to(patch: Mock, refers: bool) -> None:
    start_job(WHERE, Start("s3://b/result", 3, None, refers))
    options = patch.call_args.args[-1]["spec"]["flinkConfiguration"]
    names = ("execution.state-recovery.claim-mode", "execution.savepoint-restore-mode")
    assert [options.get(name) for name in names] == [("NO_CLAIM" if refers else None)] * 2


@pytest.mark.parametrize(
    ("has", "wants", "is_patched"), [(True, True, False), (True, False, False), (False, True, True)]
)
def test_a_deployment_as_wanted_is_not_redeployed(
    resource: dict[str, Any], patch: Mock, has: bool, wants: bool, is_patched: bool
) -> None:
    resource["spec"]["job"] |= {"initialSavepointPath": "s3://b/s", "savepointRedeployNonce": 4}
    resource["spec"]["flinkConfiguration"] = dict.fromkeys(deployment.CLAIM_MODE_OPTIONS, "NO_CLAIM") if has else {}
    redeploy(WHERE, Wanted("s3://b/s", 2, None, no_claim=wants))
    assert bool(patch.call_args_list) is is_patched
