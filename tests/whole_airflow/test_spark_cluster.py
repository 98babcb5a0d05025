"""A run whose steps work on a standalone Spark cluster that an Airflow connection names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.airflow_server import AirflowServer, request
from support.resuming import assert_right
from support.snapshots import directory
from support.standalone_spark import StandaloneSpark, standalone_spark
from support.whole_airflow import platform_with

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

SETTINGS = "spark: {{connection: spark_default}}\n"


@pytest.fixture(scope="module")
def spark(airflow: AirflowServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneSpark]:
    """Yield the cluster that the connection `spark_default` names, while the platform's settings choose it."""
    with standalone_spark(tmp_path_factory.mktemp("spark")) as cluster:
        connection = {
            "connection_id": "spark_default",
            "conn_type": "spark",
            "host": "spark://127.0.0.1",
            "port": cluster.port,
        }
        status, answer = airflow.api("POST", "/connections", connection)
        assert status == 201, answer
        try:
            with platform_with(airflow, SETTINGS):
                yield cluster
        finally:
            airflow.api("DELETE", "/connections/spark_default")


def test_run_publishes_state_moved_by_executors_of_the_cluster(
    airflow: AirflowServer, spark: StandaloneSpark, tmp_path: Path
) -> None:
    target = str(tmp_path / "rescaled")
    conf = {**request(directory("2-clicks"), target, max_parallelism=1000), "connection": None}
    run = airflow.trigger(**conf)
    assert run.end(2000) == "success", run.states()
    for task_id in ("reshuffle_keyed_state", "redistribute_operator_state", "validate"):
        assert f"master {spark.url}" in run.log_text(task_id)
    assert spark.tasks() >= 2
    assert len(list(spark.work.glob("app-*"))) == 2  # a little operator state needs no Spark
    assert_right(target, directory("2-clicks"))


def test_connection_to_the_store_is_refused_because_executors_do_not_get_it(
    airflow: AirflowServer, spark: StandaloneSpark, tmp_path: Path
) -> None:
    run = airflow.trigger(**request(directory("2-clicks"), str(tmp_path / "rescaled"), max_parallelism=1000))
    assert run.end() == "failed", run.states()
    assert f"executors of the Spark master {spark.url} cannot use the connection" in run.log_text("inspect")
