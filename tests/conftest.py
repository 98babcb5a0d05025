"""Fixtures that several folders share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from support.s3 import S3Server, s3_server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where several workers share the tests (`-n 2`), a file stays with one, and so does an Airflow, a cluster."""
    for item in items:
        folder = item.path.parent.name
        together = folder if folder in ("airflow", "k8s") else str(item.path)
        item.add_marker(pytest.mark.xdist_group(together))


@pytest.fixture(scope="session", autouse=True)
def s3() -> Iterator[S3Server]:
    """An S3 server; this process and those that it starts use it.

    It is there from the beginning: Spark's workers have the environment of the moment in which Spark was started.
    """
    with s3_server() as server:
        before = dict(os.environ)
        os.environ.update(server.environment)
        yield server
        os.environ.clear()
        os.environ.update(before)
