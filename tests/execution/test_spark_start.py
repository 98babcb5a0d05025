"""Spark may fail to start for what passes: a cluster whose API server is slow to answer."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError

from rescale.errors import StoreError
from rescale.execution.spark import session

TOLD = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.spark.SparkException: External scheduler cannot be instantiated
\tat org.apache.spark.SparkContext.<init>(SparkContext.scala:603)
Caused by: io.fabric8.kubernetes.client.KubernetesClientException: no connection
\tat io.fabric8.kubernetes.client.dsl.internal.BaseOperation.get(BaseOperation.java:98)
Caused by: java.util.concurrent.TimeoutException: the timeout of 10000 ms has been exceeded
\t... 23 more
"""


def test_what_the_jvm_could_not_do_is_worth_another_try(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise Py4JError(TOLD)

    monkeypatch.setattr(session, "SparkContext", refuse)
    with pytest.raises(StoreError, match="Spark does not start") as caught, session.spark_context("x", "local[1]"):
        pass
    assert caught.value.found == "java.util.concurrent.TimeoutException: the timeout of 10000 ms has been exceeded"
    assert not caught.value.final
