"""Spark that does not start, for example because the API server of the cluster answers slowly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from py4j.protocol import Py4JError

from rescale.execution.tasks.spark import session
from rescale.storage.scratch import MARKER
from rescale.text.errors import StoreError
from support import snapshots
from support.commands import in_a_process
from support.needs import need

ERROR_OF_KUBERNETES = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.spark.SparkException: External scheduler cannot be instantiated
\tat org.apache.spark.SparkContext.<init>(SparkContext.scala:603)
Caused by: io.fabric8.kubernetes.client.KubernetesClientException: no connection
\tat io.fabric8.kubernetes.client.dsl.internal.BaseOperation.get(BaseOperation.java:98)
Caused by: java.util.concurrent.TimeoutException: the timeout of 10000 ms has been exceeded
\t... 23 more
"""


@pytest.fixture(autouse=True)
def java() -> None:
    """Spark does not start without Java."""
    need("java", "Spark runs on a JVM")


def test_failed_start_of_spark_is_a_store_error_with_the_root_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise Py4JError(ERROR_OF_KUBERNETES)

    monkeypatch.setattr(session, "SparkContext", refuse)
    with pytest.raises(StoreError, match="Spark does not start") as caught, session.spark_context("x", "local[1]"):
        pass
    assert caught.value.found == "java.util.concurrent.TimeoutException: the timeout of 10000 ms has been exceeded"
    assert not caught.value.is_final


class _Context:
    """A Spark context that records whether it was stopped."""

    def __init__(self, application: str) -> None:
        self.master = "spark://127.0.0.1:9"
        self.applicationId = application
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True

    def setLogLevel(self, level: str) -> None:  # noqa: N802
        assert not self.stopped, level


def test_context_of_a_master_that_does_not_answer_is_stopped_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark returns a context all the same, and then stops by itself."""
    context = _Context("spark-application-1764066000000")
    monkeypatch.setattr(session, "SparkContext", lambda **_: context)
    monkeypatch.setattr(session, "_with_executors", lambda conf, _: conf)
    with pytest.raises(StoreError) as caught, session.spark_context("x", context.master):
        pass
    assert caught.value.what == "Spark's master spark://127.0.0.1:9 does not answer"
    assert "host and port" in (caught.value.advice or "")
    assert context.stopped


def test_master_that_does_not_answer_while_the_jvm_starts_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise Py4JError("\nCaused by: java.lang.IllegalStateException: Spark context stopped while waiting for backend")

    monkeypatch.setattr(session, "SparkContext", refuse)
    monkeypatch.setattr(session, "_with_executors", lambda conf, _: conf)
    with (
        pytest.raises(StoreError, match=r"Spark's master spark://h:1 does not answer") as caught,
        session.spark_context("x", "spark://h:1"),
    ):
        pass
    assert caught.value.found == "java.lang.IllegalStateException: Spark context stopped while waiting for backend"


@pytest.mark.slow
def test_command_line_reports_a_master_that_does_not_answer(tmp_path: Path) -> None:
    """Spark tries to reach the master for a minute."""
    arguments = (snapshots.directory("2-clicks"), "--target", tmp_path / "t")
    process = in_a_process("run", *arguments, "--master", "spark://127.0.0.1:9")
    assert process.returncode == 1, process.stderr
    assert "error: Spark's master spark://127.0.0.1:9 does not answer\n" in process.stderr
    assert "Traceback" not in process.stderr


@pytest.mark.slow
@pytest.mark.parametrize("when", ["while the JVM starts", "while it works"])
def test_scratch_folders_of_a_killed_spark_are_marked_and_removed_by_discard(when: str, tmp_path: Path) -> None:
    """PySpark has a directory `tmp…` until it knows the port of the JVM, and the JVM has directories while it runs."""
    program = (
        "from rescale.execution.tasks.spark.session import spark_context\n"
        "with spark_context('x', 'local[1]') as spark:\n"
        "    print(spark.applicationId, flush=True)\n"
        "    spark.parallelize([1]).map(lambda _: __import__('time').sleep(60)).collect()\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path), "SPARK_LOCAL_DIRS": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-c", program], env=environment, start_new_session=True, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        if when == "while it works":
            assert process.stdout.readline()
        while not [*tmp_path.glob("rescale-spark-*/tmp*" if when == "while the JVM starts" else "rescale-spark-*/*")]:
            assert process.poll() is None
            time.sleep(0.01)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    scratch_folders = [*tmp_path.iterdir()]
    assert scratch_folders
    assert all((path / MARKER).is_file() for path in scratch_folders)
    subprocess.run(["rescale", "discard", str(tmp_path / "no-such-target")], env=environment, check=True)
    assert [*tmp_path.iterdir()] == []
