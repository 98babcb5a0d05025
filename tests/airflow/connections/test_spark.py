"""The Spark that the platform's settings choose, by the name of its master or by an Airflow connection."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from rescale.airflow.connections.access import storage_access
from rescale.airflow.connections.spark import Spark, platform_spark, spark_of
from rescale.airflow.settings import SETTINGS_VARIABLE, SparkSettings, settings
from rescale.text.errors import RequestError


@pytest.fixture(autouse=True)
def fresh_settings() -> Iterator[None]:
    """Clear the settings, which a process reads once."""
    settings.cache_clear()
    yield
    settings.cache_clear()


def connect(monkeypatch: pytest.MonkeyPatch, connection: str) -> Spark:
    """Return the Spark of a connection, given as JSON or as a URI."""
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", connection)
    return spark_of(SparkSettings(connection="cluster"))


def refusal_of(monkeypatch: pytest.MonkeyPatch, connection: str) -> RequestError:
    with pytest.raises(RequestError) as caught:
        connect(monkeypatch, connection)
    return caught.value


def test_spark_is_local_without_settings() -> None:
    assert platform_spark() == Spark("local[*]", {})
    assert not platform_spark().is_cluster


@pytest.mark.parametrize(
    ("master", "is_cluster"),
    [("spark://host:7077", True), ("yarn", True), ("k8s://https://host:6443", True), ("local[2]", False)],
)
def test_master_in_the_settings_is_taken_as_it_is(master: str, is_cluster: bool) -> None:
    spark = spark_of(SparkSettings(master=master))
    assert (spark.master, spark.is_cluster, spark.environment) == (master, is_cluster, {})


@pytest.mark.parametrize(
    ("connection", "master"),
    [
        ('{"conn_type": "spark", "host": "spark://host", "port": 7077}', "spark://host:7077"),
        ('{"conn_type": "spark", "host": "spark://host:7077"}', "spark://host:7077"),
        ('{"conn_type": "spark", "host": "host", "port": 7077}', "spark://host:7077"),
        ('{"conn_type": "spark", "host": "yarn"}', "yarn"),
        ('{"conn_type": "spark", "host": "local[2]"}', "local[2]"),
        ('{"conn_type": "spark", "host": "k8s://https://host", "port": 6443}', "k8s://https://host:6443"),
        ("spark://host:7077", "spark://host:7077"),
        ("spark://yarn", "yarn"),
        ("spark://local", "local"),
        ("k8s://https%3A%2F%2Fhost:6443", "k8s://https://host:6443"),
    ],
)
def test_connection_names_the_same_master_as_for_the_hook_of_airflow(
    connection: str, master: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert connect(monkeypatch, connection) == Spark(master, {})


@pytest.mark.parametrize(
    ("host", "configuration"),
    [
        ("yarn", {"spark.yarn.queue": "night shift"}),
        ("k8s://https://host", {"spark.kubernetes.namespace": "state"}),
        ("spark://host:7077", {}),
    ],
)
def test_queue_is_passed_to_yarn_and_namespace_to_kubernetes(
    host: str, configuration: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"queue": "night shift", "namespace": "state", "deploy-mode": "client", "spark-binary": "spark-submit"}
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.ui.port=4050 pyspark-shell")
    spark = connect(monkeypatch, json.dumps({"conn_type": "spark", "host": host, "extra": extra}))
    assert spark.properties == configuration
    if configuration:
        ((name, value),) = configuration.items()
        options = ["--conf", f"{name}={value}", "--conf", "spark.ui.port=4050", "pyspark-shell"]
        assert shlex.split(spark.environment["PYSPARK_SUBMIT_ARGS"]) == options


@pytest.mark.parametrize(
    ("connection", "refused_value"),
    [
        ({"conn_type": "spark", "host": "http://host"}, "http://host"),
        ({"conn_type": "spark"}, "spark://"),
        ({"conn_type": "aws", "host": "spark://host"}, "aws"),
        ({"conn_type": "spark_connect", "host": "host", "port": 15002}, "spark_connect"),
        ({"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}, "cluster"),
        ({"conn_type": "spark", "host": "yarn", "extra": {"keytab": "c2VjcmV0"}}, None),
        ({"conn_type": "spark", "host": "yarn", "extra": {"principal": "ada@EXAMPLE.COM"}}, None),
    ],
)
def test_unsupported_connection_is_refused_without_showing_its_secrets(
    connection: dict[str, object], refused_value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = refusal_of(monkeypatch, json.dumps(connection))
    assert error.found == refused_value
    assert "'cluster'" in error.what
    assert "c2VjcmV0" not in str(error)


def test_missing_connection_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_NOBODY", raising=False)
    with pytest.raises(RequestError, match="'nobody'"):
        spark_of(SparkSettings(connection="nobody"))


@pytest.mark.parametrize(("master", "reaches"), [("local[2]", True), ("spark://host:7077", False)])
def test_connection_to_the_store_is_refused_if_executors_would_not_have_it(
    master: str, reaches: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(f"spark: {{master: '{master}'}}")
    monkeypatch.setenv(SETTINGS_VARIABLE, str(file))
    monkeypatch.delenv("AIRFLOW_CONN_NOBODY", raising=False)
    with pytest.raises(RequestError) as caught, storage_access("nobody"):
        pass
    assert (master in caught.value.what) is not reaches
    with storage_access(None):
        pass
