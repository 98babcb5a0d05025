"""How long a triggerer asks."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
import pytest

from rescale.errors import StoreError
from rescale.orchestration.flink.questions import Answer, JobEnded
from rescale.orchestration.flink.triggers import Answered

QUESTION = JobEnded("http://127.0.0.1:9", "0" * 32)


def fired(patience: float = float("inf")) -> Any:
    async def run() -> Any:
        trigger = Answered(msgspec.to_builtins(QUESTION), patience, 0.01)
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
    assert error["what"] == f"waited in vain for job {QUESTION.job_id} to end"
    assert error["error"] != "StoreError"
