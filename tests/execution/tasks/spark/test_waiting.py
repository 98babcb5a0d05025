"""A cluster that starts no executors: a message says so after a while, and again at longer intervals."""

from __future__ import annotations

import threading
from itertools import chain, repeat

import pytest
from py4j.protocol import Py4JError
from pyspark import SparkConf

from rescale.execution.tasks.spark.waiting import missing_resources, watch


def test_missing_executors_are_reported_after_a_while_and_at_longer_intervals(
    capsys: pytest.CaptureFixture[str],
) -> None:
    executor_counts = chain(repeat(0, 12), repeat(1))
    watch(
        lambda: next(executor_counts),
        "a node",
        threading.Event(),
        first_seconds=0.025,
        interval_seconds=0.04,
        poll_seconds=0.01,
    )
    assert [line for line in capsys.readouterr().err.splitlines() if "a node" in line] == [
        "no executor has started for 0 s: a node",
        "no executor has started for 0 s: a node",
        "no executor has started for 0 s: a node",
    ]


def test_wait_for_executors_is_silent_if_one_starts_or_the_step_ends(capsys: pytest.CaptureFixture[str]) -> None:
    watch(lambda: 1, "a node", threading.Event())
    step_ended = threading.Event()
    step_ended.set()
    watch(lambda: 0, "a node", step_ended, first_seconds=0.0, poll_seconds=0.01)
    assert capsys.readouterr().err == ""


def test_wait_for_executors_is_silent_after_spark_has_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    """A stopped Spark is reported by its caller; a thread's traceback in between would look like a fault."""

    def raise_stopped() -> int:
        raise Py4JError("Cannot call methods on a stopped SparkContext")

    watch(raise_stopped, "a node", threading.Event())
    assert capsys.readouterr().err == ""


def test_report_of_missing_executors_names_the_resources_of_the_kubernetes_pod() -> None:
    conf = SparkConf(loadDefaults=False).setMaster("k8s://https://api").set("spark.executor.memoryOverhead", "1024m")
    conf.set("spark.executor.cores", "2").set("spark.kubernetes.namespace", "flink")
    report = missing_resources(conf, "spark-1")
    assert "its pod requests 2 cores and 1g + 1024m of memory" in report
    assert report.endswith("kubectl -n flink describe pods -l spark-role=executor,spark-app-selector=spark-1")
    assert missing_resources(conf.setMaster("spark://host:7077"), "app") == (
        "the cluster must offer 2 cores and 1g + 1024m of memory"
    )
