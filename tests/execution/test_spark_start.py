"""Spark may fail to start for what passes: a cluster whose API server is slow to answer."""

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
from support.needs import need

TOLD = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.spark.SparkException: External scheduler cannot be instantiated
\tat org.apache.spark.SparkContext.<init>(SparkContext.scala:603)
Caused by: io.fabric8.kubernetes.client.KubernetesClientException: no connection
\tat io.fabric8.kubernetes.client.dsl.internal.BaseOperation.get(BaseOperation.java:98)
Caused by: java.util.concurrent.TimeoutException: the timeout of 10000 ms has been exceeded
\t... 23 more
"""


@pytest.fixture(autouse=True)
def java() -> None:
    """Spark's start looks for it first."""
    need("java", "Spark runs on a JVM")


def test_what_the_jvm_could_not_do_is_worth_another_try(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise Py4JError(TOLD)

    monkeypatch.setattr(session, "SparkContext", refuse)
    with pytest.raises(StoreError, match="Spark does not start") as caught, session.spark_context("x", "local[1]"):
        pass
    assert caught.value.found == "java.util.concurrent.TimeoutException: the timeout of 10000 ms has been exceeded"
    assert not caught.value.final


class _Given:
    """A context that Spark has given."""

    def __init__(self, application: str) -> None:
        self.master = "spark://127.0.0.1:9"
        self.applicationId = application
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True

    def setLogLevel(self, level: str) -> None:  # noqa: N802
        assert not self.stopped, level


def test_a_master_that_does_not_answer_is_said_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark gives a context all the same, and ends behind it."""
    given = _Given("spark-application-1764066000000")
    monkeypatch.setattr(session, "SparkContext", lambda **_: given)
    monkeypatch.setattr(session, "_with_executors", lambda conf, _: conf)
    with pytest.raises(StoreError) as caught, session.spark_context("x", given.master):
        pass
    assert caught.value.what == "Spark's master spark://127.0.0.1:9 does not answer"
    assert "host and port" in (caught.value.advice or "")
    assert given.stopped


def test_so_is_one_of_which_the_jvm_tells_while_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_a_command_says_that_the_master_does_not_answer(tmp_path: Path) -> None:
    """Spark asks for a minute."""
    arguments = [
        "run",
        snapshots.directory("2-clicks"),
        "--target",
        str(tmp_path / "t"),
        "--master",
        "spark://127.0.0.1:9",
    ]
    command = [sys.executable, "-m", "rescale.cli.main", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stderr
    assert "error: Spark's master spark://127.0.0.1:9 does not answer\n" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("when", ["while the JVM starts", "while it works"])
def test_what_a_killed_spark_leaves_is_known_for_ours_and_goes(when: str, tmp_path: Path) -> None:
    """PySpark has a directory `tmp…` until the JVM has told its port, and the JVM has some as long as it runs."""
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
    left = [*tmp_path.iterdir()]
    assert left
    assert all((path / MARKER).is_file() for path in left)
    subprocess.run(["rescale", "discard", str(tmp_path / "no-such-target")], env=environment, check=True)
    assert [*tmp_path.iterdir()] == []
