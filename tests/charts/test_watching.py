"""Monitoring of drivers: metrics, a dashboard, event logs, all of them off by default."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import pytest
import yaml

from support.helm import CHART, Manifest, manifest_of, rendered, template

ALL = ("--values", str(CHART / "ways/all-in-one.yaml"), "--values", str(CHART / "ways/one-run.yaml"))

SERVED = {"activeTasks", "maxTasks", "completedTasks_total", "failedTasks_total", "JVMHeapMemory_bytes"} | {
    *("totalShuffleRead_bytes_total", "totalShuffleWrite_bytes_total", "ProcessTreePythonRSSMemory_bytes"),
    *("totalGCTime_seconds_total", "totalDuration_seconds_total"),
}
"""Metrics that Spark 4.3 serves for each executor, without the prefix `metrics_executor_`."""


@pytest.fixture(scope="module")
def watched() -> list[Manifest]:
    return rendered(
        *ALL,
        *("--set", "metrics.enabled=true", "--set", "metrics.dashboard.enabled=true"),
        *("--set", "networkPolicy.enabled=true", "--set", "spark.eventLog=s3://logs/rescale"),
        *("--set-json", 'metrics.from=[{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]'),
        *("--set-json", 'driver.annotations={"prometheus.io/port": "4041"}'),
    )


def drivers(manifests: list[Manifest]) -> Iterator[Manifest]:
    """Yield the pod templates of the drivers of the run and of Airflow's tasks."""
    yield manifest_of(manifests, "Job", "")["spec"]["template"]
    yield yaml.safe_load(manifest_of(manifests, "ConfigMap", "-airflow")["data"]["driver.yaml"])


def conf(manifests: list[Manifest]) -> list[str]:
    return str(manifest_of(manifests, "ConfigMap", "-spark")["data"]["spark-defaults.conf"]).splitlines()


def test_drivers_are_annotated_with_the_place_of_their_metrics(watched: list[Manifest]) -> None:
    for pod in drivers(watched):
        annotations = pod["metadata"]["annotations"]
        assert annotations["prometheus.io/path"] == "/metrics/executors/prometheus"
        assert annotations["prometheus.io/port"] == "4041", "an annotation of the values was overwritten"
        assert pod["spec"]["containers"][0]["ports"] == [{"name": "metrics", "containerPort": 4040}]
        kubernetes_validate.validate({"apiVersion": "v1", "kind": "Pod", **pod}, "1.34", strict=True)
    assert {
        "spark.ui.enabled true",
        "spark.ui.killEnabled false",
        "spark.metrics.conf.*.sink.prometheusServlet.class org.apache.spark.metrics.sink.PrometheusServlet",
    } <= set(conf(watched))
    executor = yaml.safe_load(manifest_of(watched, "ConfigMap", "-spark")["data"]["executor.yaml"])
    assert "prometheus.io/scrape" not in executor["metadata"].get("annotations", {})


def test_monitoring_may_connect_to_drivers(watched: list[Manifest]) -> None:
    ingress = manifest_of(watched, "NetworkPolicy", "-spark")["spec"]["ingress"]
    assert ingress[1:] == [
        {
            "from": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
            "ports": [{"port": 4040, "protocol": "TCP"}],
        }
    ]


def test_event_logs_are_written_to_the_place_in_the_values(watched: list[Manifest]) -> None:
    for pod in drivers(watched):
        env = {variable["name"]: variable.get("value") for variable in pod["spec"]["containers"][0]["env"]}
        assert env["RESCALE_EVENT_LOG"] == "s3://logs/rescale"
    assert template(*ALL, "--set", "spark.eventLog=/var/log").returncode != 0


def test_event_log_of_spark_itself_can_be_configured() -> None:
    settings = ["--set-json", 'spark.conf={"spark.eventLog.enabled": true, "spark.eventLog.dir": "s3a://logs/rescale"}']
    assert {"spark.eventLog.enabled true", "spark.eventLog.dir s3a://logs/rescale"} <= set(
        conf(rendered(*ALL, *settings))
    )


def test_dashboard_queries_metrics_that_spark_serves(watched: list[Manifest]) -> None:
    config_map = manifest_of(watched, "ConfigMap", "-dashboard")
    assert config_map["metadata"]["labels"]["grafana_dashboard"] == "1"
    dashboard: dict[str, Any] = json.loads(config_map["data"]["rescale.json"])
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    names = {name for expression in expressions for name in re.findall(r"metrics_executor_(\w+)", expression)}
    assert names == SERVED
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert {name for expression in expressions for name in re.findall(r"\$(\w+)", expression)} <= {
        *variables,
        "__rate_interval",
    }
    places = [tuple(panel["gridPos"][axis] for axis in "xy") for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)


def test_monitoring_is_off_by_default() -> None:
    manifests = rendered(*ALL)
    assert not [m for m in manifests if m["metadata"]["name"].endswith("-dashboard")]
    assert "spark.ui.enabled false" in conf(manifests)
    for pod in drivers(manifests):
        assert "prometheus.io/scrape" not in pod["metadata"].get("annotations", {})
        assert "ports" not in pod["spec"]["containers"][0]
