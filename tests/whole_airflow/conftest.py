"""An Airflow that all tests share: its four components as processes, and savepoints and jobs for it to rescale."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from oracle.distribution import LINES
from support.airflow_server import AirflowServer
from support.postgres import postgres, programs
from support.s3 import S3Server, put_files
from support.session_cluster import RETAINING, SessionCluster, session_cluster
from support.snapshots import directory
from support.whole_airflow import airflow_server

_TEST_SECONDS = 1800
"""Time limit of a test without its own: it may start all fixtures here and wait for several runs."""


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.get_closest_marker("timeout") is None:
        item.add_marker(pytest.mark.timeout(_TEST_SECONDS))


@pytest.fixture(scope="package")
def airflow(s3: S3Server) -> Iterator[AirflowServer]:
    """Yield an Airflow whose database is PostgreSQL if the machine has it: under load SQLite refuses transactions."""
    with ExitStack() as stack:
        options = {}
        if programs() is not None:
            options["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = stack.enter_context(postgres()).url
        yield stack.enter_context(airflow_server(s3, **options))


@pytest.fixture(scope="package")
def cluster(s3: S3Server) -> Iterator[SessionCluster]:
    """Yield a session cluster with access to S3 for jobs of a real Flink."""
    with session_cluster(list(LINES.values())[-1], s3, **RETAINING) as running:
        yield running


@pytest.fixture(scope="module")
def values_to_run(request: pytest.FixtureRequest) -> Callable[[str], set[Any]]:
    """Return a function that returns the values of a parameter in those tests of the module that will run."""

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
def upload(bucket: str) -> Callable[[str], str]:
    """Return a function that puts a committed snapshot into the bucket, and returns its URI."""

    def put(name: str) -> str:
        source = f"{bucket}/{name}"
        put_files(Path(directory(name)), source)
        return source

    return put
