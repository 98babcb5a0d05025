"""A namespace with an S3 server and a savepoint of real Flink in it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from k8s.savepoints import JOB
from oracle.distribution import LINES
from oracle.harness import Flink
from rescale.storage import store as stores
from support.cluster import Namespace, namespace, need_cluster
from support.needs import need
from support.s3 import S3Server, put_files


@pytest.fixture(scope="package")
def space() -> Iterator[Namespace]:
    need_cluster()
    need("kubectl", "the tests inspect the cluster")
    need("helm", "the chart is installed")
    with namespace() as created:
        yield created


@pytest.fixture(scope="package")
def cluster_s3(space: Namespace) -> Iterator[S3Server]:
    """Yield the S3 server in the cluster; this process uses it, too."""
    before = dict(os.environ)
    with space.s3() as server:
        os.environ.update(server.environment)
        stores._s3.cache_clear()  # the cached store may be that of another server
        yield server
        os.environ.clear()
        os.environ.update(before)
        stores._s3.cache_clear()


@pytest.fixture(scope="package")
def flink_for_clusters() -> Iterator[Flink]:
    need("javac", "real Flink is driven by Java that is compiled for it")
    with Flink(LINES["2"]) as flink:
        yield flink


@pytest.fixture(scope="package")
def savepoint(cluster_s3: S3Server, flink_for_clusters: Flink, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a savepoint of `JOB` by real Flink in the cluster's S3."""
    snapshot = flink_for_clusters.snapshot(JOB, tmp_path_factory.mktemp("flink"), "canonical")
    bucket = cluster_s3.new_bucket("rescale")
    source = f"s3://{bucket}/savepoint"
    put_files(snapshot, source)
    return source
