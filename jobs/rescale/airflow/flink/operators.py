"""Operators that take a job's savepoint, hand the job over, and go back.

These operators occupy a worker for a few requests only. While a question has no answer, they are deferred to the
triggerer.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NoReturn

import msgspec
from airflow.sdk import BaseOperator, Context

from rescale.airflow.connections.access import form_access
from rescale.airflow.flink.cancel_mark import CancelMark
from rescale.airflow.flink.questions import Answer, FlinkQuestion, describe_answer
from rescale.airflow.flink.stopping import (
    JobToRestart,
    end_pending_work,
    go_back,
    hand_job_over,
    job_to_restart_of,
    started_job,
    take_savepoint,
)
from rescale.airflow.flink.triggers import AnswerTrigger
from rescale.airflow.forms.filled_form import trimmed_values
from rescale.airflow.hand_overs import hand_over_of
from rescale.airflow.state_stores import task_state
from rescale.airflow.steps.earlier_tasks import LOOK, PUBLISH, required_output
from rescale.airflow.steps.retries import RETRIES, task_errors
from rescale.flink.start import Start
from rescale.flink_rest.client import StopMode
from rescale.text.error_document import ErrorDocument
from rescale.text.errors import RescaleError

_PERIOD_SECONDS = 10.0
"""Time between two questions, and before the first.

A worker takes seconds to exit after it has deferred a task; if the task resumed before, Airflow would consider it lost
(`SchedulerJobRunner.process_executor_events`).
"""


class WaitingOperator(BaseOperator):
    """Base operator that waits for the answer to a question, for at most `patience`."""

    def __init__(self, *, patience: timedelta = timedelta(hours=1), **arguments: Any) -> None:
        super().__init__(**{**RETRIES, **arguments})
        self.patience = patience

    def answered(self, context: Context, event: dict[str, Any]) -> Answer:  # noqa: ARG002
        """Resume with the triggerer's answer, which is the result of the task."""
        with task_errors():
            return self._finish(_answer(event))

    def _result(self, step: FlinkQuestion | Answer) -> Answer:
        """Return the answer if there is one already; defer the task otherwise."""
        if isinstance(step, dict):
            return self._finish(step)
        if (answer := step.ask()) is None:
            self._defer(step, "answered")
        return self._finish(answer)

    def _defer(self, question: FlinkQuestion, then: str) -> NoReturn:
        self.log.info("waiting for %s", question.waits_for)
        trigger = AnswerTrigger(msgspec.to_builtins(question), self.patience.total_seconds(), _PERIOD_SECONDS)
        self.defer(trigger=trigger, method_name=then)

    def _run_name(self, context: Context) -> str:
        """Return the name that all tasks of the run share; the ids that Flink gets are derived from it."""
        instance = context["ti"]
        return f"{instance.dag_id}/{instance.run_id}"

    def _finish(self, answer: Answer) -> Answer:
        """Log the answer, and return it as the result of the task."""
        self.log.info("%s", describe_answer(answer))
        return answer


class TakeSavepoint(WaitingOperator):
    """Operator that takes the savepoint of a job. Its result is `{"savepoint": URI, "job": id, "state": job state}`.

    `before` is the document of a `JobToRestart`. If that names the job's last checkpoint as the source, the job is
    cancelled right after the checkpoint, and the result names the checkpoint.
    """

    template_fields: Sequence[str] = ("before",)

    def __init__(self, *, before: Any, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.before = before

    def execute(self, context: Context) -> Answer:
        with task_errors():
            old_job = job_to_restart_of(required_output(LOOK, self.before))
            if old_job.taking in (StopMode.STOP, StopMode.CANCEL):
                _mark(context, old_job).refuse_ended_task()
            if old_job.taking is not StopMode.CHECKPOINT:
                return self._result(take_savepoint(old_job, self._run_name(context)))
            with form_access(trimmed_values(context["params"]), reads_source=True):
                from rescale.airflow.flink.checkpoint_stop import stop_at_checkpoint

                return self._finish(stop_at_checkpoint(old_job, _mark(context, old_job)))


class HandOverJob(WaitingOperator):
    """Operator that starts the job from the result, or prints the command for it.

    Its result describes the new job, with `in_place_of`, the id of the job whose savepoint the run has taken.

    `start` is the document of a `Start`. If the run has taken the savepoint, `before` is the document of a
    `JobToRestart`, which contains the hand-over; otherwise `hand_over` is the document of the hand-over
    (`hand_over_of`). `parallelism` is the default parallelism of the job, None if unknown; a plan assumes that it is
    the parallelism of most operators.
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
        with task_errors():
            start = Start(**required_output(PUBLISH, self.start))
            start = start._replace(parallelism=self.parallelism or start.parallelism)
            self.log.info("start the job: %s", start.command)
            old_job = job_to_restart_of(self.before) if self.before else None
            hand_over = (
                old_job.hand_over if old_job is not None else hand_over_of(required_output(LOOK, self.hand_over))
            )
            return self._result(hand_job_over(hand_over, start, self._run_name(context), old_job))

    def _finish(self, answer: Answer) -> Answer:
        return super()._finish({**answer, "in_place_of": self.before["job_id"]} if self.before else answer)


class GoBack(WaitingOperator):
    """Operator that starts the job again from its own savepoint, with its old shape; a running job is left alone.

    `before` is the document of a `JobToRestart`, `taken` the result of `TakeSavepoint`, or None without a result. The
    result has `in_place_of`, the id of the job that was stopped. The job is not started again twice: if it was started
    and has ended since, another run may have handed it over.
    """

    template_fields: Sequence[str] = ("before", "taken")

    def __init__(self, *, before: Any, taken: Any = None, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.before = before
        self.taken = taken

    def execute(self, context: Context) -> Answer:
        return self._start_again(context)

    def _start_again(self, context: Context) -> Answer:
        with task_errors():
            old_job: JobToRestart = job_to_restart_of(required_output(LOOK, self.before))
            savepoint = self.source(context, old_job)
            if savepoint is not None:
                start = Start(savepoint, old_job.parallelism, None)
                self.log.info("if this task fails, start the job by hand: %s", start.command)
            run = self._run_name(context)
            if _mark(context, old_job).went_back and started_job(old_job, run, savepoint, with_old_shape=True) is None:
                raise RescaleError(
                    "an earlier try of this task has started the job again, and that job has ended since",
                    operator=old_job.name,
                    expected="the job that was started again",
                    advice="if no other run has taken that job over, start it from its own last checkpoint",
                )
            self._end_pending_work(context, old_job)
            if savepoint is None:
                savepoint = self.source(context, old_job)  # known once the job has ended
            return self._gone_back(context, old_job, self._result(go_back(old_job, run, savepoint)))

    def answered(self, context: Context, event: dict[str, Any]) -> Answer:
        """Resume when the job runs again."""
        answer = super().answered(context, event)
        with task_errors():
            return self._gone_back(context, job_to_restart_of(self.before), answer)

    def leave(self, context: Context, old_job: JobToRestart) -> None:
        """Leave what the run has made to another run. Called when the job runs again, once or more."""

    def _gone_back(self, context: Context, old_job: JobToRestart, answer: Answer) -> Answer:
        """Return the result of the task when the job runs again; `answer` describes that job."""
        if answer.get("went_back") is False:
            return answer
        _mark(context, old_job).set_went_back()
        self.leave(context, old_job)
        # A request to start the new job, whose answer was lost, may have come through meanwhile.
        self._end_pending_work(context, old_job)
        return {**answer, "in_place_of": old_job.job_id}

    def _end_pending_work(self, context: Context, old_job: JobToRestart) -> None:
        """End what would run beside the job that is started again; defer the task while that takes time."""
        while (question := end_pending_work(old_job, self._run_name(context))) is not None:
            if question.ask() is None:
                self._defer(question, "cleared")

    def source(self, context: Context, old_job: JobToRestart) -> str | None:  # noqa: ARG002
        """Return the snapshot to start the job from; None if there is none, or if only Flink knows it."""
        return self.taken["savepoint"] if self.taken and self.taken["job"] == old_job.job_id else None

    def cleared(self, context: Context, event: dict[str, Any]) -> Answer:
        """Resume when the pending work has ended. From now on the job must be started again, whatever others say."""
        with task_errors():
            _answer(event)
        return self._start_again(context)


def _mark(context: Context, old_job: JobToRestart) -> CancelMark:
    ti = context["ti"]
    return CancelMark(task_state(context.get("task_state_store"), ti), ti, old_job.job_id)


def _answer(event: dict[str, Any]) -> Answer:
    if "error" in event:
        raise RescaleError.of_document(msgspec.convert(event["error"], ErrorDocument))
    answer: Answer = event["answer"]
    return answer
