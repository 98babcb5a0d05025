"""A rescale in Airflow between places in S3 that need settings of a connection."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.dag_runner import DagRunner
from support.hosted_buckets import hosted_buckets
from support.snapshots import directory

DAG = Path(__file__).parents[3] / "dags" / "rescale_savepoint.py"


@pytest.mark.slow
def test_store_that_refuses_path_style_is_reached_by_the_connection(
    dags: DagRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hosted_buckets(monkeypatch) as server:
        bucket = server.new_bucket("hosted")
        for path in Path(directory("2-clicks")).iterdir():
            server.client().put_object(Bucket=bucket, Key=f"source/{path.name}", Body=path.read_bytes())
        for name in server.environment:
            monkeypatch.delenv(name)
        extra = {
            "endpoint_url": server.hosted_endpoint,
            "region_name": "us-east-1",
            "config_kwargs": {"s3": {"addressing_style": "virtual"}},
        }
        connection = {"conn_type": "aws", "login": "test", "password": "not-a-secret", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_HOSTED", json.dumps(connection))
        target = f"s3://{bucket}/rescaled"
        form = {"source": f"s3://{bucket}/source", "target": target, "parallelism": 3, "connection": "hosted"}
        run = dags.run(DAG, "rescale_savepoint", **form)
        assert run.state == "success", run.log
        assert server.client().head_object(Bucket=bucket, Key="rescaled/_metadata")
        assert server.take_refused() == []
