"""How long a triggerer asks, and what it tells."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from airflow.sdk.exceptions import AirflowException

from rescale.airflow.flink.questions import Answer, JobEnded, JobRuns
from rescale.airflow.flink.triggers import AnswerTrigger
from rescale.flink_rest.client import Flink
from rescale.flink_rest.running_job import JobLine
from rescale.text.errors import RescaleError, StoreError

QUESTION = JobEnded("http://127.0.0.1:9", "0" * 32)


def fired(patience: float = float("inf")) -> Any:
    async def run() -> Any:
        trigger = AnswerTrigger(msgspec.to_builtins(QUESTION), patience, 0.01)
        return [event.payload async for event in trigger.run()]

    (payload,) = asyncio.run(run())
    return payload


def test_nobody_to_ask_is_put_up_with_for_a_while() -> None:
    error = fired()["error"]
    assert (error["error"], error["what"]) == ("StoreError", "Flink cannot be reached")


def test_an_answer_may_come_late_and_after_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    given = iter([StoreError("trouble")] * 4 + [None] + [StoreError("trouble")] * 4 + [{"job": "it"}])

    def ask(_: JobEnded) -> Answer | None:
        answer = next(given)
        if isinstance(answer, StoreError):
            raise answer
        return answer

    monkeypatch.setattr(JobEnded, "ask", ask)
    assert fired() == {"answer": {"job": "it"}}


def test_a_fault_of_ours_is_told_to_the_task_and_one_of_airflow_s_is_airflow_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JobEnded, "ask", lambda _: {}["job"])
    assert fired()["error"]["error"] == "InternalError"
    monkeypatch.setattr(JobEnded, "ask", Mock(side_effect=AirflowException("of the database")))
    with pytest.raises(AirflowException):
        fired()


@pytest.mark.parametrize(
    ("state", "why", "reason", "advice"),
    [
        ("FAILED", "a: b", "FAILED: a: b", "if the job sets its max parallelism itself, remove that"),
        ("CANCELED", None, "CANCELED", "find out who has cancelled it"),
    ],
)
def test_a_job_that_has_ended_says_how(
    state: str, why: str | None, reason: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Flink, "line", lambda *_: JobLine("0" * 32, "clicks", state))
    monkeypatch.setattr(Flink, "why_failed", lambda *_: why)
    with pytest.raises(RescaleError, match="the job did not start from the snapshot") as caught:
        JobRuns("http://127.0.0.1:9", "0" * 32).ask()
    assert caught.value.found == reason
    assert str(caught.value.advice).startswith(advice)


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_put_takes_no_patience(hours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one that is ahead in the triggerer, where the deadline would be over by the clock of the worker."""
    given = iter([None, None, {"job": "it"}])
    clock = time.time

    def ask(_: JobEnded) -> Answer | None:
        monkeypatch.setattr(time, "time", lambda: clock() + hours * 3600)
        return next(given)

    monkeypatch.setattr(JobEnded, "ask", ask)
    assert fired(patience=60) == {"answer": {"job": "it"}}


def test_no_answer_in_time_is_final(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JobEnded, "ask", lambda _: None)
    error = fired(0.05)["error"]
    assert error["what"] == f"timed out while waiting for job {QUESTION.job_id} to end"
    assert error["error"] != "StoreError"
