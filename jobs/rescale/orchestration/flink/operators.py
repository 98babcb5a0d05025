"""The operators of a rescale that take a job's savepoint, hand the job over, and go back.

They act in a worker, for as long as a few requests take. What has no answer yet is deferred: the triggerer waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NoReturn

import msgspec
from airflow.sdk import BaseOperator, Context

from rescale.errors import RescaleError
from rescale.flink.start import Start
from rescale.orchestration.flink.kinds import hand_over_of
from rescale.orchestration.flink.questions import Answer, Question
from rescale.orchestration.flink.stopping import (
    JobBefore,
    clear_the_way,
    go_back,
    hand_job_over,
    job_before_of,
    take_savepoint,
)
from rescale.orchestration.flink.triggers import Answered
from rescale.orchestration.steps.attempts import ATTEMPTS, ended_by_our_errors
from rescale.orchestration.steps.earlier_tasks import LOOK, PUBLISH, told_by

_PERIOD_SECONDS = 10.0
"""Between two questions, and before the first one: a worker that has deferred a task takes seconds to leave, and a task
that goes on before then is taken for lost (`SchedulerJobRunner.process_executor_events`)."""


class _Waiting(BaseOperator):
    """Waits for an answer for at most `patience`."""

    def __init__(self, *, patience: timedelta = timedelta(hours=1), **arguments: Any) -> None:
        super().__init__(**{**ATTEMPTS, **arguments})
        self.patience = patience

    def answered(self, context: Context, event: dict[str, Any]) -> Answer:  # noqa: ARG002
        """The result of the task, which the triggerer was given."""
        with ended_by_our_errors():
            return self._told(_answer(event))

    def _result(self, step: Question | Answer) -> Answer:
        """The answer, if there is one already."""
        if isinstance(step, dict):
            return self._told(step)
        if (answer := step.ask()) is None:
            self._defer(step, "answered")
        return self._told(answer)

    def _defer(self, question: Question, then: str) -> NoReturn:
        self.log.info("waiting for %s", question.waits_for)
        trigger = Answered(msgspec.to_builtins(question), self.patience.total_seconds(), _PERIOD_SECONDS)
        self.defer(trigger=trigger, method_name=then)

    def _told(self, answer: Answer) -> Answer:
        self.log.info("%s", answer)
        return answer


class TakeSavepoint(_Waiting):
    """Takes the savepoint of a job: `{"savepoint": URI, "job": id, "state": of the job}`.

    `before` is the document of a `JobBefore`.
    """

    template_fields: Sequence[str] = ("before",)

    def __init__(self, *, before: Any, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.before = before

    def execute(self, context: Context) -> Answer:
        with ended_by_our_errors():
            return self._result(take_savepoint(job_before_of(told_by(LOOK, self.before)), _run(context)))


class HandOverJob(_Waiting):
    """Starts the job from the result, or shows the command that does: what Flink or its operator says of the new job,
    and `in_place_of`, the id of the one whose savepoint the run has taken.

    `start` is the document of a `Start`; `before` that of a `JobBefore` if the run has taken the savepoint, which says
    how the job is handed over: else `hand_over` does, a document as `hand_over_of` takes. `parallelism` is the job's
    own, if that is known: a plan knows those of operators only, and takes that of most.
    """

    template_fields: Sequence[str] = ("start", "before", "hand_over", "parallelism")

    def __init__(
        self, *, start: Any, before: Any = None, hand_over: Any = None, parallelism: Any = None, **arguments: Any
    ) -> None:
        super().__init__(**arguments)
        self.start = start
        self.before = before
        self.hand_over = hand_over
        self.parallelism = parallelism

    def execute(self, context: Context) -> Answer:
        with ended_by_our_errors():
            start = Start(**told_by(PUBLISH, self.start))
            start = start._replace(parallelism=self.parallelism or start.parallelism)
            self.log.info("start the job: %s", start.command)
            before = job_before_of(self.before) if self.before else None
            hand_over = before.hand_over if before is not None else hand_over_of(told_by(LOOK, self.hand_over))
            return self._result(hand_job_over(hand_over, start, _run(context), before))

    def _told(self, answer: Answer) -> Answer:
        return super()._told({**answer, "in_place_of": self.before["job_id"]} if self.before else answer)


class GoBack(_Waiting):
    """Starts the job again from the savepoint that was taken of it, at its old shape; a job that still runs is left.

    `before` is the document of a `JobBefore`, `taken` the result of `TakeSavepoint`, None if there is none.
    """

    template_fields: Sequence[str] = ("before", "taken")

    def __init__(self, *, before: Any, taken: Any = None, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.before = before
        self.taken = taken

    def execute(self, context: Context) -> Answer:
        with ended_by_our_errors():
            before: JobBefore = job_before_of(told_by(LOOK, self.before))
            savepoint = self.taken["savepoint"] if self.taken and self.taken["job"] == before.job_id else None
            if savepoint is not None:
                start = Start(savepoint, before.parallelism, None)
                self.log.info("if this task fails, the job can be started by hand: %s", start.command)
            while (question := clear_the_way(before, _run(context))) is not None:
                if question.ask() is None:
                    self._defer(question, "cleared")
            return self._result(go_back(before, _run(context), savepoint))

    def cleared(self, context: Context, event: dict[str, Any]) -> Answer:
        """What was under way has ended: on."""
        with ended_by_our_errors():
            _answer(event)
        return self.execute(context)


def _answer(event: dict[str, Any]) -> Answer:
    if "error" in event:
        raise RescaleError.from_json(event["error"])
    answer: Answer = event["answer"]
    return answer


def _run(context: Context) -> str:
    instance = context["ti"]
    return f"{instance.dag_id}/{instance.run_id}"
