"""How Airflow treats Rescale's errors: which fail at once, which are retried, with what reason and pauses."""

from __future__ import annotations

import errno
import logging
from datetime import timedelta

import pytest
from airflow.sdk import RetryAction
from airflow.sdk.exceptions import AirflowException
from kubernetes.client import ApiException

from rescale.airflow.steps.retries import RETRIES, RetryByError, TaskEnded, task_errors
from rescale.text.errors import (
    IntegrityError,
    InternalError,
    RequestError,
    RescaleError,
    SnapshotError,
    StoreError,
    UnsupportedError,
)

FINAL = (RequestError, SnapshotError, UnsupportedError, IntegrityError, InternalError)


@pytest.mark.parametrize("kind", [*FINAL, StoreError])
def test_rescale_error_ends_the_task_with_its_message_and_exit_code(
    kind: type[RescaleError], caplog: pytest.LogCaptureFixture
) -> None:
    error = kind("the file ends too early", path="/save/_metadata", advice="take another savepoint")
    with caplog.at_level(logging.ERROR), pytest.raises(TaskEnded) as ended, task_errors():
        raise error
    assert ended.value.code == error.exit_code
    assert caplog.messages == [str(error)]
    assert all(record.exc_info is None for record in caplog.records), "a traceback is logged"


@pytest.mark.parametrize("kind", FINAL)
def test_final_error_fails_at_once(kind: type[RescaleError]) -> None:
    decision = RetryByError().evaluate(TaskEnded(kind("it is so")), 1, 4)
    assert (decision.action, decision.reason) == (RetryAction.FAIL, "it is so")


def test_store_error_is_retried() -> None:
    decision = RetryByError().evaluate(TaskEnded(StoreError("no answer")), 1, 4)
    assert (decision.action, decision.reason) == (RetryAction.RETRY, "no answer")


def test_unexpected_error_fails_at_once_with_its_traceback_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(TaskEnded) as ended, task_errors():
        raise ValueError("no such thing")
    assert ended.value.code == 5
    assert RetryByError().evaluate(ended.value, 1, 4).action is RetryAction.FAIL
    (logged,) = caplog.messages
    assert "ValueError: no such thing" in logged
    assert 'raise ValueError("no such thing")' in logged


@pytest.mark.parametrize("fault", [MemoryError(), OSError(errno.ENOSPC, "no space left"), ConnectionResetError()])
def test_lack_of_memory_disk_or_connection_is_retried(fault: Exception) -> None:
    with pytest.raises(TaskEnded) as ended, task_errors():
        raise fault
    assert RetryByError().evaluate(ended.value, 1, 4).action is RetryAction.RETRY


@pytest.mark.parametrize("fault", [AirflowException("of Airflow's own"), ApiException(500), SystemExit(1)])
def test_errors_of_airflow_follow_the_settings_of_the_task(fault: BaseException) -> None:
    assert RetryByError().evaluate(fault, 1, 4).action is RetryAction.DEFAULT
    with pytest.raises(type(fault)), task_errors():
        raise fault


def test_tasks_have_four_retries_with_growing_pauses() -> None:
    assert (RETRIES["retries"], RETRIES["retry_delay"]) == (4, timedelta(seconds=10))
    assert RETRIES["retry_exponential_backoff"] > 1
