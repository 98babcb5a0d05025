"""Operators that wait for answers of Flink, among them the one that hands a job over.

These operators occupy a worker for a few requests only. While a question has no answer, they are deferred to the
triggerer.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NoReturn

import msgspec
from airflow.sdk import BaseOperator, Context

from rescale.airflow.flink.job_record import JobRecord
from rescale.airflow.flink.questions import Answer, FlinkQuestion, describe_answer
from rescale.airflow.flink.stopping import JobToRestart, hand_job_over, job_to_restart_of
from rescale.airflow.flink.triggers import AnswerTrigger
from rescale.airflow.hand_overs import hand_over_of, start_of_document
from rescale.airflow.steps.earlier_tasks import LOOK_TASK, PUBLISH_TASK, name_of_run, required_output
from rescale.airflow.steps.retries import RETRIES, task_errors
from rescale.text.error_document import ErrorDocument
from rescale.text.errors import RescaleError

_PERIOD_SECONDS = 10.0
"""Seconds between two questions of the trigger, and before its first question.

A worker takes seconds to exit after it has deferred a task. If the task resumed before the worker's exit, Airflow would
consider the task lost (`SchedulerJobRunner.process_executor_events`).
"""


class WaitingOperator(BaseOperator):
    """Base of operators that wait for the answer to a question, for at most `patience`."""

    def __init__(self, *, patience: timedelta = timedelta(hours=1), **arguments: Any) -> None:
        super().__init__(**{**RETRIES, **arguments})
        self.patience = patience

    def answered(self, context: Context, event: dict[str, Any]) -> Answer:  # noqa: ARG002
        """Resume with the triggerer's answer, which is the result of the task."""
        with task_errors():
            return self._finish(answer_of(event))

    def _answer_or_defer(self, question_or_answer: FlinkQuestion | Answer) -> Answer:
        """Return the answer if there is one already; defer the task otherwise."""
        if isinstance(question_or_answer, dict):
            return self._finish(question_or_answer)
        if (answer := question_or_answer.ask()) is None:
            self._defer(question_or_answer, "answered", self.patience)
        return self._finish(answer)

    def _defer(self, question: FlinkQuestion, resume_method: str, patience: timedelta) -> NoReturn:
        self.log.info("waiting for %s", question.waits_for)
        trigger = AnswerTrigger(msgspec.to_builtins(question), patience.total_seconds(), _PERIOD_SECONDS)
        self.defer(trigger=trigger, method_name=resume_method)

    def _run_name(self, context: Context) -> str:
        return name_of_run(context["ti"])

    def _job_record(self, context: Context, old_job: JobToRestart) -> JobRecord:
        return JobRecord(self._run_name(context), old_job, context["ti"])

    def _finish(self, answer: Answer) -> Answer:
        """Log the answer, and return it as the result of the task."""
        self.log.info("%s", describe_answer(answer))
        return answer


class HandOverJob(WaitingOperator):
    """Operator that starts the job from the result, or prints the command for it.

    The task's output describes the new job, or has the command as `start`. If the run has taken a savepoint, the output
    also has `in_place_of`: the id of the job that the savepoint is from.

    `start` is the document of a `Start`. If the run has taken the savepoint, `old_job_document` is that of a
    `JobToRestart`, which contains the hand-over. If not, `hand_over` is the document of the hand-over (`hand_over_of`).
    `parallelism` is the default parallelism of the new job; None for the parallelism in `start`.
    """

    template_fields: Sequence[str] = ("start", "old_job_document", "hand_over", "parallelism")

    def __init__(
        self,
        *,
        start: Any,
        old_job_document: Any = None,
        hand_over: Any = None,
        parallelism: Any = None,
        **arguments: Any,
    ) -> None:
        super().__init__(**arguments)
        self.start = start
        self.old_job_document = old_job_document
        self.hand_over = hand_over
        self.parallelism = parallelism

    def execute(self, context: Context) -> Answer:
        with task_errors():
            start = start_of_document(required_output(PUBLISH_TASK, self.start), self.parallelism)
            self.log.info("command that starts the job: %s", start.command)
            old_job = job_to_restart_of(self.old_job_document) if self.old_job_document else None
            hand_over = (
                old_job.hand_over if old_job is not None else hand_over_of(required_output(LOOK_TASK, self.hand_over))
            )
            question = (
                None if old_job is None else self._job_record(context, old_job).question_if_started(start.snapshot)
            )
            question_or_answer = question or hand_job_over(hand_over, start, self._run_name(context), old_job)
            return self._record_hand_over(context, self._answer_or_defer(question_or_answer))

    def answered(self, context: Context, event: dict[str, Any]) -> Answer:
        """Resume when the job runs."""
        return self._record_hand_over(context, super().answered(context, event))

    def _record_hand_over(self, context: Context, answer: Answer) -> Answer:
        """Record that the new job runs, unless a command was printed; return the answer."""
        if self.old_job_document and "start" not in answer:
            with task_errors():
                self._job_record(context, job_to_restart_of(self.old_job_document)).note_start()
        return answer

    def _finish(self, answer: Answer) -> Answer:
        return super()._finish(
            {**answer, "in_place_of": self.old_job_document["job_id"]} if self.old_job_document else answer
        )


def answer_of(event: dict[str, Any]) -> Answer:
    """Return the answer in the event of an `AnswerTrigger`, or raise the error in it."""
    if "error" in event:
        raise RescaleError.of_document(msgspec.convert(event["error"], ErrorDocument))
    answer: Answer = event["answer"]
    return answer
