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
def patch(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Return the mock that takes the request to Kubernetes to patch a FlinkDeployment."""
    resource: dict[str, Any] = {"spec": {"job": {"parallelism": 2}}}
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
