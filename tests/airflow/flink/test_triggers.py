"""Duration of a triggerer's polling, and the payload of its event."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from airflow.sdk.exceptions import AirflowException

from rescale.airflow.flink.questions import Answer, JobEndQuestion, JobStartQuestion
from rescale.airflow.flink.triggers import AnswerTrigger
from rescale.flink_rest.client import Flink
from rescale.flink_rest.running_job import Job, JobOverview, Vertex
from rescale.text.errors import RescaleError, StoreError

QUESTION = JobEndQuestion("http://127.0.0.1:9", "0" * 32)


def payload_of_event(patience: float = float("inf")) -> Any:
    async def run() -> Any:
        trigger = AnswerTrigger(msgspec.to_builtins(QUESTION), patience, 0.01)
        return [event.payload async for event in trigger.run()]

    (payload,) = asyncio.run(run())
    return payload


def test_unreachable_flink_is_reported_after_several_tries() -> None:
    error = payload_of_event()["error"]
    assert (error["error"], error["what"]) == ("StoreError", "Flink cannot be reached")


def test_late_answer_after_errors_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([StoreError("trouble")] * 4 + [None] + [StoreError("trouble")] * 4 + [{"job": "it"}])

    def ask(_: JobEndQuestion) -> Answer | None:
        answer = next(answers)
        if isinstance(answer, StoreError):
            raise answer
        return answer

    monkeypatch.setattr(JobEndQuestion, "ask", ask)
    assert payload_of_event() == {"answer": {"job": "it"}}


def test_unexpected_error_is_given_to_the_task_but_an_airflow_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JobEndQuestion, "ask", lambda _: {}["job"])
    assert payload_of_event()["error"]["error"] == "InternalError"
    monkeypatch.setattr(JobEndQuestion, "ask", Mock(side_effect=AirflowException("of the database")))
    with pytest.raises(AirflowException):
        payload_of_event()


@pytest.mark.parametrize(
    ("state", "why", "reason", "advice"),
    [
        ("FAILED", "a: b", "FAILED: a: b", "if the job sets its max parallelism itself, remove that"),
        ("CANCELED", None, "CANCELED", "find out who has cancelled it"),
    ],
)
def test_ended_job_is_reported_with_its_reason(
    state: str, why: str | None, reason: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Flink, "job_overview", lambda *_: JobOverview("0" * 32, "clicks", state))
    monkeypatch.setattr(Flink, "failure_messages", lambda *_: why)
    with pytest.raises(RescaleError, match="the job did not start from the snapshot") as caught:
        JobStartQuestion("http://127.0.0.1:9", "0" * 32).ask()
    assert caught.value.found == reason
    assert str(caught.value.advice).startswith(advice)


def test_job_is_not_reported_by_an_answer_from_before_its_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flink caches the details of a job for some seconds, but not the overview of jobs."""
    job_id = "0" * 32
    tasks = {"RUNNING": 2}
    answers = iter([(), (Vertex("1" * 32, "source", 2, 128, tasks),)])
    monkeypatch.setattr(
        Flink, "job_overview", lambda *_: JobOverview(job_id, "clicks", "RUNNING", {"running": 2, "total": 2})
    )
    monkeypatch.setattr(Flink, "job", lambda *_: Job(job_id, "clicks", "RUNNING", next(answers)))
    monkeypatch.setattr(Flink, "restored_snapshot_uri", lambda *_: "s3://b/result")
    question = JobStartQuestion("http://127.0.0.1:9", job_id)
    assert question.ask() is None
    answer = question.ask()
    assert answer is not None
    assert answer["parallelism"] == 2


@pytest.mark.parametrize("hours", [-1, 1])
def test_jumping_clock_does_not_shorten_the_patience(hours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a deadline by the worker's clock, the time would be over at once on a triggerer whose clock is ahead."""
    answers = iter([None, None, {"job": "it"}])
    clock = time.time

    def ask(_: JobEndQuestion) -> Answer | None:
        monkeypatch.setattr(time, "time", lambda: clock() + hours * 3600)
        return next(answers)

    monkeypatch.setattr(JobEndQuestion, "ask", ask)
    assert payload_of_event(patience=60) == {"answer": {"job": "it"}}


def test_timeout_is_final(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JobEndQuestion, "ask", lambda _: None)
    error = payload_of_event(0.05)["error"]
    assert error["what"] == f"timed out while waiting for job {QUESTION.job_id} to end"
    assert error["error"] != "StoreError"
