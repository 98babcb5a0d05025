"""One Airflow for all: its four components as processes on this machine, and savepoints and jobs for it to rescale."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oracle.distribution import LINES
from support.airflow_server import AirflowServer
from support.s3 import S3Server, put_files
from support.session_cluster import SessionCluster, session_cluster
from support.snapshots import directory
from support.whole_airflow import airflow_server


@pytest.fixture(scope="package")
def airflow(s3: S3Server) -> Iterator[AirflowServer]:
    with airflow_server(s3) as server:
        yield server


@pytest.fixture(scope="package")
def cluster(s3: S3Server) -> Iterator[SessionCluster]:
    """For jobs of a real Flink, which has access to S3."""
    with session_cluster(list(LINES.values())[-1], s3) as running:
        yield running


@pytest.fixture(scope="module")
def asked_for(request: pytest.FixtureRequest) -> Callable[[str], set[Any]]:
    """Gives the values of a parameter in those tests of the module that will run."""

    def values(parameter: str) -> set[Any]:
        tests = [test for test in request.session.items if isinstance(test, pytest.Function)]
        given = [test.callspec.params for test in tests if test.module is request.module and hasattr(test, "callspec")]
        return {params[parameter] for params in given if parameter in params}

    return values


@pytest.fixture
def bucket(s3: S3Server) -> str:
    name = s3.new_bucket("airflow")
    return f"s3://{name}"


@pytest.fixture
def uploaded(bucket: str) -> Callable[[str], str]:
    """Puts a committed snapshot into the bucket."""

    def upload(name: str) -> str:
        source = f"{bucket}/{name}"
        put_files(Path(directory(name)), source)
        return source

    return upload
