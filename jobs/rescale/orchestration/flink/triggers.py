"""Waiting without a worker: the triggerer asks a question until it has an answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from airflow.triggers.base import BaseTrigger, TriggerEvent

from rescale.errors import RescaleError, StoreError, unexpected
from rescale.orchestration.flink.questions import Question
from rescale.orchestration.steps.attempts import is_ours

_PATIENCE = 5
"""So many times in a row a question may find nobody to ask."""


class Answered(BaseTrigger):
    """Asks `question` after every `period` seconds, for `patience` seconds.

    These begin here, and anew in the next triggerer if this one ends: its clock need not be that of who asks.
    The one event is `{"answer": …}` or `{"error": …}`, an error of ours as a document.
    """

    def __init__(self, question: dict[str, Any], patience: float, period: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.question = question
        self.patience = patience
        self.period = period

    def serialize(self) -> tuple[str, dict[str, Any]]:
        name = f"{type(self).__module__}.{type(self).__qualname__}"
        return name, {"question": self.question, "patience": self.patience, "period": self.period}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        try:
            event = {"answer": await self._answer()}
        except Exception as error:
            if not is_ours(error):
                raise
            event = {"error": unexpected(error).to_json()}
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]

    async def _answer(self) -> dict[str, Any]:
        question: Question = msgspec.convert(self.question, Question)
        begun, unheard = time.monotonic(), 0
        while True:
            await asyncio.sleep(self.period)
            try:
                answer = await asyncio.to_thread(question.ask)
                unheard = 0
            except StoreError as error:
                self.log.warning("%s", error)
                unheard += 1
                if unheard == _PATIENCE:
                    raise
                answer = None
            if answer is not None:
                return answer
            if time.monotonic() - begun > self.patience:
                raise RescaleError(
                    f"waited in vain for {question.waits_for}", advice="look at Flink's logs, then clear the task"
                )
