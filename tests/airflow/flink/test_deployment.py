"""A FlinkDeployment that may be read and not patched is refused while its job runs, as a stand-in's answers have it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from kubernetes.client import ApiException

from rescale.airflow.flink import deployment
from rescale.airflow.flink.hand_overs import PatchDeployment
from rescale.airflow.flink.starting import check_hand_over
from rescale.text.errors import RequestError

WHERE = PatchDeployment("flink", "clicks")


@pytest.fixture
def resource() -> dict[str, Any]:
    return {"spec": {"job": {"parallelism": 2}}}


@pytest.fixture
def patch(resource: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Mock:
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


@pytest.mark.parametrize(
    "options",
    [
        {"job.autoscaler.enabled": "true"},
        {"job": {"autoscaler": {"enabled": True}}},
        {"job": {"autoscaler.enabled": "True"}},
    ],
)
def test_an_autoscaler_is_named_before_anything_is_stopped(
    options: dict[str, Any], resource: dict[str, Any], patch: Mock, caplog: pytest.LogCaptureFixture
) -> None:
    check_hand_over(WHERE)
    assert "Flink's operator scales this job" not in caplog.text
    resource["spec"]["flinkConfiguration"] = options
    check_hand_over(WHERE)
    assert "Flink's operator scales this job (job.autoscaler.enabled)" in caplog.text
    assert deployment.read_deployment(WHERE).autoscaled
    assert patch.called


@pytest.mark.parametrize(("before", "after"), [(None, 1), (4, 5)])
def test_what_the_autoscaler_remembers_is_reset(
    before: int | None, after: int, resource: dict[str, Any], patch: Mock
) -> None:
    resource["spec"]["job"]["autoscalerResetNonce"] = before
    deployment.redeploy(WHERE, deployment.Wanted("s3://b/savepoint", 4, None))
    assert patch.call_args.args[-1]["spec"]["job"]["autoscalerResetNonce"] == after


def test_vertices_with_a_parallelism_of_their_own_are_refused(resource: dict[str, Any], patch: Mock) -> None:
    resource["spec"]["flinkConfiguration"] = {"pipeline": {"jobvertex-parallelism-overrides": "ab:2"}}
    with pytest.raises(RequestError, match="sets the parallelism of single vertices") as caught:
        check_hand_over(WHERE)
    assert "pipeline.jobvertex-parallelism-overrides: ab:2" in str(caught.value.found)
    assert all(call.kwargs.get("dry_run") == "All" for call in patch.call_args_list)
