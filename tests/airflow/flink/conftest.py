"""A session cluster of each release line, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oracle.distribution import LINES
from support.s3 import S3Server
from support.session_cluster import SessionCluster, session_cluster
from support.slow import slow_but


@pytest.fixture(scope="package", params=slow_but(lambda line: line == "2", LINES))
def shared_cluster(request: pytest.FixtureRequest, s3: S3Server) -> Iterator[SessionCluster]:
    with session_cluster(LINES[request.param], s3) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: SessionCluster) -> Iterator[SessionCluster]:
    """Return the cluster without a job, before and after the test."""
    yield shared_cluster
    shared_cluster.clear()
