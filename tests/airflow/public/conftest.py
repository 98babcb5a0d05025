"""Airflow's database, which all DAGs of these tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.dag_runner import DagRunner, dag_runner


@pytest.fixture(scope="package")
def dags() -> Iterator[DagRunner]:
    with dag_runner() as running:
        yield running
