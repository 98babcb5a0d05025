"""Trigger that asks a question until it has an answer, so that no worker waits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from airflow.triggers.base import BaseTrigger, TriggerEvent

from rescale.airflow.flink.questions import FlinkQuestion
from rescale.airflow.steps.retries import is_own_error
from rescale.text.errors import RescaleError, StoreError, as_rescale_error

_MOST_FAILURES = 5
"""Number of failed questions in a row after which the trigger gives up."""


class AnswerTrigger(BaseTrigger):
    """Trigger that asks `question` every `period` seconds, for `patience` seconds.

    `patience` counts from the start of the trigger, and again if another triggerer takes over, because the clocks of
    triggerer and worker may differ. The only event is `{"answer": …}`, or `{"error": …}` with the document of an error.
    """

    def __init__(self, question: dict[str, Any], patience: float, period: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.question = question
        self.patience = patience
        self.period = period

    def serialize(self) -> tuple[str, dict[str, Any]]:
        class_path = f"{type(self).__module__}.{type(self).__qualname__}"
        return class_path, {"question": self.question, "patience": self.patience, "period": self.period}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        try:
            event = {"answer": await self._answer()}
        except Exception as error:
            if not is_own_error(error):
                raise
            event = {"error": msgspec.to_builtins(as_rescale_error(error).document())}
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]

    async def _answer(self) -> dict[str, Any]:
        question: FlinkQuestion = msgspec.convert(self.question, FlinkQuestion)
        start_time, failure_count = time.monotonic(), 0
        while True:
            await asyncio.sleep(self.period)
            try:
                answer = await asyncio.to_thread(question.ask)
                failure_count = 0
            except StoreError as error:
                self.log.warning("%s", error)
                failure_count += 1
                if failure_count == _MOST_FAILURES:
                    raise
                answer = None
            if answer is not None:
                return answer
            if time.monotonic() - start_time > self.patience:
                raise RescaleError(
                    f"timed out while waiting for {question.waits_for}",
                    found=f"no answer within {self.patience:g} seconds",
                    advice="look at Flink's logs, then clear the task",
                )
