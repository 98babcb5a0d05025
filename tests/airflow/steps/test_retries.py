"""Treatment of Rescale's errors by Airflow: immediate failure or retries, with their reasons and pauses."""

from __future__ import annotations

import errno
import logging
from datetime import timedelta

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException
from kubernetes.client import ApiException

from rescale.airflow.steps import retries
from rescale.airflow.steps.retries import RETRIES, TaskEnded, task_errors
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


def ended(error: Exception) -> TaskEnded:
    """Return the exception that ends a task in which the error was raised."""
    with pytest.raises(TaskEnded) as caught, task_errors():
        raise error
    return caught.value


def verdict(ended: BaseException) -> tuple[str, str | None]:
    """Return what Airflow does after this exception (`default`: it follows `retries`), and the reason it shows."""
    if (policy := RETRIES.get("retry_policy")) is None:
        fails, is_ours = isinstance(ended, AirflowFailException), isinstance(ended, TaskEnded)
        return "fail" if fails else "retry" if is_ours else "default", str(ended).splitlines()[0]
    decision = policy.evaluate(ended, 1, 4)
    return decision.action.value, decision.reason


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
    assert verdict(ended(kind("it is so"))) == ("fail", "it is so")


@pytest.mark.parametrize(("kind", "fails"), [*((kind, True) for kind in FINAL), (StoreError, False)])
def test_final_error_fails_at_once_in_airflow_without_policies(
    kind: type[RescaleError], fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "_RETRY_POLICY", {})
    error = ended(kind("it is so"))
    assert isinstance(error, AirflowFailException) is fails
    assert (error.code, str(error).splitlines()[0]) == (kind.exit_code, "it is so")


def test_store_error_is_retried() -> None:
    assert verdict(ended(StoreError("no answer"))) == ("retry", "no answer")


def test_unexpected_error_fails_at_once_with_its_traceback_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        error = ended(ValueError("no such thing"))
    assert error.code == 5
    assert verdict(error)[0] == "fail"
    (logged,) = caplog.messages
    assert "ValueError: no such thing" in logged
    assert "raise error" in logged


@pytest.mark.parametrize("fault", [MemoryError(), OSError(errno.ENOSPC, "no space left"), ConnectionResetError()])
def test_lack_of_memory_disk_or_connection_is_retried(fault: Exception) -> None:
    assert verdict(ended(fault))[0] == "retry"


@pytest.mark.parametrize("fault", [AirflowException("of Airflow's own"), ApiException(500), SystemExit(1)])
def test_errors_of_airflow_follow_the_settings_of_the_task(fault: BaseException) -> None:
    assert verdict(fault)[0] == "default"
    with pytest.raises(type(fault)), task_errors():
        raise fault


def test_tasks_have_four_retries_with_growing_pauses() -> None:
    assert (RETRIES["retries"], RETRIES["retry_delay"]) == (4, timedelta(seconds=10))
    backoff = RETRIES["retry_exponential_backoff"]
    assert backoff is True if BaseOperator.retry_exponential_backoff is False else backoff > 1
