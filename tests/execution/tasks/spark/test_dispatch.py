"""Failures of Spark become errors of Rescale, and calls run at the same time in threads of the driver."""

from __future__ import annotations

from threading import Barrier

import pytest
from py4j.protocol import Py4JError

from rescale.execution.tasks.spark.dispatch import error_of_failed_task, raise_spark_errors
from rescale.storage.scratch import MORE_ROOM_ADVICE
from rescale.storage.side_by_side import side_by_side
from rescale.text.errors import InternalError, RescaleError, SnapshotError, StoreError


def test_side_by_side_calls_run_at_once_and_return_in_order() -> None:
    barrier = Barrier(2, timeout=300)

    def work(item: int) -> int:
        if item in (0, 3):
            barrier.wait()
        return item * item

    assert side_by_side(work, range(5)) == [0, 1, 4, 9, 16]
    with pytest.raises(ZeroDivisionError):
        side_by_side(lambda item: 1 // item, range(5))


JVM_MESSAGE = "An error occurred while calling PythonRDD.runJob.\n: org.apache.spark.SparkException: "
PYTHON_HEADER = "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
FRAMES = '  File "worker.py", line 7, in main\n    work()\n'
JAVA_FRAMES = "\n SQLSTATE: 38000\n\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1)\n"


@pytest.mark.parametrize("cause", ["IndexError: tuple index out of range", "AssertionError"])
def test_python_exception_in_a_task_of_spark_is_an_internal_error(cause: str) -> None:
    error = error_of_failed_task(f"{JVM_MESSAGE}Job aborted\n{PYTHON_HEADER}{FRAMES}{cause}{JAVA_FRAMES}")
    assert isinstance(error, InternalError)
    assert error.found == cause
    assert (error.traceback or "").splitlines()[-1] == cause


def test_lost_executor_or_memory_error_in_a_task_of_spark_is_a_store_error() -> None:
    lost_executor = error_of_failed_task(
        f"{JVM_MESSAGE}Job aborted: ExecutorLostFailure (executor 1 exited)\n\tat org.apache.spark.Scheduler\n"
    )
    short_memory = error_of_failed_task(
        f"{JVM_MESSAGE}Job aborted\n{PYTHON_HEADER}{FRAMES}MemoryError: no more\n  of it{JAVA_FRAMES}"
    )
    assert (type(lost_executor), type(short_memory)) == (StoreError, StoreError)
    assert (
        lost_executor.found == "org.apache.spark.SparkException: Job aborted: ExecutorLostFailure (executor 1 exited)"
    )
    assert short_memory.found == "MemoryError: no more; of it"


@pytest.mark.parametrize(
    "raised",
    [
        StoreError(
            "the scratch directory cannot be used: No space left", path="/scratch/a: b", advice=MORE_ROOM_ADVICE
        ),
        StoreError("throttled", path="/p", offset=7, expected="an answer: 200", found="503"),
        SnapshotError("it has changed", operator="counts"),
    ],
    ids=lambda error: error.what,
)
def test_rescale_error_of_a_task_of_spark_is_restored_from_its_message(raised: RescaleError) -> None:
    cause = f"rescale.text.errors.{type(raised).__name__}: {raised}"
    error = error_of_failed_task(f"{JVM_MESSAGE}Job aborted\n{PYTHON_HEADER}{FRAMES}{cause}{JAVA_FRAMES}")
    if not raised.is_final and not raised.advice:
        assert error.advice
        error.advice = None
    assert error.document() == raised.document()


def test_call_to_a_stopped_spark_is_a_store_error() -> None:
    """Spark stops by itself when the master removes the application."""
    cause = "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."
    error = error_of_failed_task(
        f"An error occurred while calling o96.defaultParallelism.\n: {cause}\nIt was created at:\n"
    )
    assert (type(error), error.what, error.found) == (StoreError, "Spark has stopped", cause)


@pytest.mark.parametrize(
    "connection_error", [Py4JError("An error occurred while calling o1.x"), ConnectionRefusedError()]
)
def test_lost_connection_to_the_jvm_is_a_store_error(connection_error: Exception) -> None:
    with pytest.raises(StoreError, match="Spark's JVM has ended"), raise_spark_errors():
        raise connection_error
