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

AIRFLOW_AND_RUN = ("--values", str(CHART / "ways/all-in-one.yaml"), "--values", str(CHART / "ways/one-run.yaml"))

EXECUTOR_METRICS = {"activeTasks", "maxTasks", "completedTasks_total", "failedTasks_total", "JVMHeapMemory_bytes"} | {
    *("totalShuffleRead_bytes_total", "totalShuffleWrite_bytes_total", "ProcessTreePythonRSSMemory_bytes"),
    *("totalGCTime_seconds_total", "totalDuration_seconds_total"),
}
"""Metrics that Spark 4.3 serves for each executor, without the prefix `metrics_executor_`."""


@pytest.fixture(scope="module")
def monitored_manifests() -> list[Manifest]:
    return rendered(
        *AIRFLOW_AND_RUN,
        *("--set", "metrics.enabled=true", "--set", "metrics.dashboard.enabled=true"),
        *("--set", "networkPolicy.enabled=true", "--set", "spark.eventLog=s3://logs/rescale"),
        *("--set-json", 'metrics.from=[{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]'),
        *("--set-json", 'driver.annotations={"prometheus.io/port": "4041"}'),
    )


def driver_pods(manifests: list[Manifest]) -> Iterator[Manifest]:
    """Yield the pod templates of the drivers of the run and of Airflow's tasks."""
    yield manifest_of(manifests, "Job", "")["spec"]["template"]
    yield yaml.safe_load(manifest_of(manifests, "ConfigMap", "-airflow")["data"]["driver.yaml"])


def conf_lines(manifests: list[Manifest]) -> list[str]:
    return str(manifest_of(manifests, "ConfigMap", "-spark")["data"]["spark-defaults.conf"]).splitlines()


def test_drivers_are_annotated_with_port_and_path_of_their_metrics(monitored_manifests: list[Manifest]) -> None:
    for pod in driver_pods(monitored_manifests):
        annotations = pod["metadata"]["annotations"]
        assert annotations["prometheus.io/path"] == "/metrics/executors/prometheus"
        assert annotations["prometheus.io/port"] == "4041", "an annotation of the values was overwritten"
        assert pod["spec"]["containers"][0]["ports"] == [{"name": "metrics", "containerPort": 4040}]
        kubernetes_validate.validate({"apiVersion": "v1", "kind": "Pod", **pod}, "1.34", strict=True)
    assert {
        "spark.ui.enabled true",
        "spark.ui.killEnabled false",
        "spark.metrics.conf.*.sink.prometheusServlet.class org.apache.spark.metrics.sink.PrometheusServlet",
    } <= set(conf_lines(monitored_manifests))
    executor = yaml.safe_load(manifest_of(monitored_manifests, "ConfigMap", "-spark")["data"]["executor.yaml"])
    assert "prometheus.io/scrape" not in executor["metadata"].get("annotations", {})


def test_monitoring_may_connect_to_drivers(monitored_manifests: list[Manifest]) -> None:
    ingress = manifest_of(monitored_manifests, "NetworkPolicy", "-spark")["spec"]["ingress"]
    assert ingress[1:] == [
        {
            "from": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
            "ports": [{"port": 4040, "protocol": "TCP"}],
        }
    ]


def test_drivers_are_given_the_directory_of_event_logs(monitored_manifests: list[Manifest]) -> None:
    for pod in driver_pods(monitored_manifests):
        env = {variable["name"]: variable.get("value") for variable in pod["spec"]["containers"][0]["env"]}
        assert env["RESCALE_EVENT_LOG"] == "s3://logs/rescale"
    assert template(*AIRFLOW_AND_RUN, "--set", "spark.eventLog=/var/log").returncode != 0


def test_event_log_of_spark_itself_can_be_configured() -> None:
    settings = ["--set-json", 'spark.conf={"spark.eventLog.enabled": true, "spark.eventLog.dir": "s3a://logs/rescale"}']
    assert {"spark.eventLog.enabled true", "spark.eventLog.dir s3a://logs/rescale"} <= set(
        conf_lines(rendered(*AIRFLOW_AND_RUN, *settings))
    )


def test_dashboard_queries_metrics_that_spark_serves(monitored_manifests: list[Manifest]) -> None:
    config_map = manifest_of(monitored_manifests, "ConfigMap", "-dashboard")
    assert config_map["metadata"]["labels"]["grafana_dashboard"] == "1"
    dashboard: dict[str, Any] = json.loads(config_map["data"]["rescale.json"])
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    names = {name for expression in expressions for name in re.findall(r"metrics_executor_(\w+)", expression)}
    assert names == EXECUTOR_METRICS
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert {name for expression in expressions for name in re.findall(r"\$(\w+)", expression)} <= {
        *variables,
        "__rate_interval",
    }
    positions = [tuple(panel["gridPos"][axis] for axis in "xy") for panel in dashboard["panels"]]
    assert len(set(positions)) == len(positions)


def test_monitoring_is_off_by_default() -> None:
    manifests = rendered(*AIRFLOW_AND_RUN)
    assert not [m for m in manifests if m["metadata"]["name"].endswith("-dashboard")]
    assert "spark.ui.enabled false" in conf_lines(manifests)
    for pod in driver_pods(manifests):
        assert "prometheus.io/scrape" not in pod["metadata"].get("annotations", {})
        assert "ports" not in pod["spec"]["containers"][0]
