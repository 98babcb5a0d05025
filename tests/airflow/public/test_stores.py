"""A rescale in Airflow between places in S3 that need settings of a connection, or two connections."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.dag_runner import DagRunner
from support.hosted_buckets import hosted_buckets
from support.s3 import S3Server
from support.snapshots import directory
from support.two_stores import BUCKET, two_stores

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


def test_source_and_target_are_in_two_stores_by_two_connections(
    dags: DagRunner, s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with two_stores(s3, tmp_path, from_moto=False) as stores:
        source = stores.put_source("2-clicks", f"s3://{BUCKET}/source")
        for name in s3.environment:
            monkeypatch.delenv(name)
        for side, server in (("PREMISES", stores.source), ("CLOUD", stores.target)):
            monkeypatch.setenv(f"AIRFLOW_CONN_{side}", connection(server))
        target = f"s3://{BUCKET}/rescaled"
        form = {"source": source, "target": target, "parallelism": 3}
        run = dags.run(
            DAG, "rescale_savepoint", **form, connection="cloud", source_connection="premises", require_approval=False
        )
        assert run.state == "success", run.log
        target_uris = {entry.uri for entry in stores.at_target().list(f"s3://{BUCKET}")}
        assert {f"{target}/_metadata", f"{target}.rescale/certificate.json"} <= target_uris
        assert all(entry.uri.startswith(source) for entry in stores.at_source().list(f"s3://{BUCKET}"))
        for secret in (stores.source.secret_key, stores.target.secret_key):
            assert secret not in run.log
            assert secret not in json.dumps(run.outputs, default=str)


def connection(server: S3Server) -> str:
    extra = {"endpoint_url": server.endpoint, "region_name": server.environment["AWS_DEFAULT_REGION"]}
    return json.dumps({"conn_type": "aws", "login": server.access_key, "password": server.secret_key, "extra": extra})
