"""Connections in Airflow: their types are offered, and the steps of a run assume a role."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rescale.storage.store import open_store
from support.airflow_server import AirflowServer, request
from support.s3 import S3Server


def test_connection_types_are_offered(airflow: AirflowServer) -> None:
    for kind in ("aws", "http"):
        connection = {"connection_id": f"of_type_{kind}", "conn_type": kind}
        assert airflow.api("POST", "/connections", connection)[0] == 201
    hooks = airflow.ui("/connections/hook_meta")
    assert {"aws", "http", "kubernetes"} <= {hook["connection_type"] for hook in hooks}


@pytest.mark.slow
def test_role_is_assumed_for_every_step(
    airflow: AirflowServer, s3: S3Server, bucket: str, upload: Callable[[str], str]
) -> None:
    extra = (
        f'{{"role_arn": "arn:aws:iam::123456789012:role/rescale", "endpoint_url": "{s3.endpoint}", '
        f'"region_name": "us-east-1", "service_config": {{"sts": {{"endpoint_url": "{s3.endpoint}"}}}}}}'
    )
    connection = {"connection_id": "by_role", "conn_type": "aws", "login": "a", "password": "b", "extra": extra}
    assert airflow.api("POST", "/connections", connection)[0] == 201
    target = f"{bucket}/rescaled"
    run = airflow.trigger(**{**request(upload("2-clicks"), target, parallelism=3), "connection": "by_role"})
    assert run.end() == "success", run.states()
    assert open_store(target).stat(f"{target}/_metadata")


@pytest.mark.slow
def test_missing_connection_is_reported_with_the_field_of_the_form(airflow: AirflowServer, bucket: str) -> None:
    run = airflow.trigger(**{**request(f"{bucket}/save", f"{bucket}/rescaled", parallelism=2), "connection": None})
    assert run.end() == "failed"
    log = run.log_text("inspect")
    assert 'fill in "Connection"' in log
    assert "AWS_ACCESS_KEY_ID" not in log
