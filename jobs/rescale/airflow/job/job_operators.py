"""Operators that only the rescale of a running job has: one takes its savepoint, one starts it again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import Context

from rescale.airflow.connections.access import form_access
from rescale.airflow.flink.job_record import JobRecord, Phase
from rescale.airflow.flink.operators import WaitingOperator, answer_of
from rescale.airflow.flink.questions import Answer, FlinkQuestion
from rescale.airflow.flink.stopping import (
    JobToRestart,
    begin_savepoint,
    end_pending_work,
    go_back,
    job_to_restart_of,
    question_for_started_job,
    still_runs,
)
from rescale.airflow.forms.filled_form import trimmed_values
from rescale.airflow.steps.earlier_tasks import FOLLOW_TASK, FOLLOWED_TARGET_KEY, LOOK_TASK, required_output
from rescale.airflow.steps.rescale_task import skip_task
from rescale.airflow.steps.retries import task_errors
from rescale.airflow.steps.step_task import delete_pods_of_run
from rescale.flink.start import Start
from rescale.flink_rest.client import StopMode
from rescale.text.errors import RescaleError

_PATIENCE_WITH_PENDING_WORK = timedelta(days=1)
"""Time to wait for the end of a savepoint in progress, or of the new job.

If a savepoint stopped the job after this time, nobody would start the job again.
"""


class TakeSavepoint(WaitingOperator):
    """Operator that takes the savepoint of a job, unless the state is moved while the job runs.

    `old_job_document` is that of a `JobToRestart`. The result is `{"savepoint": URI, "job": id, "state": job state}`.
    If the job's last checkpoint is to be the source, the job is cancelled right after the checkpoint, and `savepoint`
    is the checkpoint.
    """

    template_fields: Sequence[str] = ("old_job_document",)

    def __init__(self, *, old_job_document: Any, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.old_job_document = old_job_document

    def execute(self, context: Context) -> Answer:
        if context["params"]["while_it_runs"]:
            skip_task(f"the state is moved while the job runs, by the task {FOLLOW_TASK!r}")
        with task_errors():
            old_job = job_to_restart_of(required_output(LOOK_TASK, self.old_job_document))
            record = self._job_record(context, old_job)
            if old_job.taking is StopMode.RUN_ON:
                return self._answer_or_defer(begin_savepoint(old_job, record.run_name))
            record.question_if_started(old_job.target)  # raises an error if another run may have taken the job over
            if old_job.taking is not StopMode.CHECKPOINT:
                record.note_stop()
                return self._answer_or_defer(begin_savepoint(old_job, record.run_name))
            with form_access(trimmed_values(context["params"]), reads_source=True):
                from rescale.airflow.flink.checkpoint_stop import stop_at_checkpoint

                return self._finish(stop_at_checkpoint(old_job, record))


class GoBack(WaitingOperator):
    """Operator that starts a job again that the run has stopped and not handed over.

    The job starts from its own savepoint or last checkpoint, with its old shape. It is started again only once: if the
    restarted job has ended, another run may have handed it over.

    `old_job_document` is that of a `JobToRestart`. `take_output` is the result of `TakeSavepoint`; None if there is
    none. The operator's result has `in_place_of`, the id of the job that was stopped.
    """

    template_fields: Sequence[str] = ("old_job_document", "take_output")

    def __init__(self, *, old_job_document: Any, take_output: Any = None, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.old_job_document = old_job_document
        self.take_output = take_output

    def execute(self, context: Context) -> Answer:
        with task_errors():
            old_job = job_to_restart_of(required_output(LOOK_TASK, self.old_job_document))
            if old_job.taking is StopMode.RUN_ON:
                skip_task("no need to go back: the run does not stop the job")
            if was_handed_over(self._job_record(context, old_job)):
                skip_task("no need to go back: the job was handed over")
        return self._start_again(context, old_job)

    def _start_again(self, context: Context, old_job: JobToRestart) -> Answer:
        with task_errors():
            savepoint = self._snapshot_to_start_from(context, old_job)
            if savepoint is not None:
                start = Start(savepoint, old_job.parallelism, None)
                self.log.info("if this task fails, start the job by hand: %s", start.command)
            record = self._job_record(context, old_job)
            phase = record.phase
            if phase is Phase.WENT_BACK:
                return self._record_restart(
                    context, old_job, self._answer_or_defer(_question_for_restarted_job(record, savepoint))
                )
            if phase is not None and not still_runs(old_job):
                record.note(Phase.GOES_BACK)
            self._end_pending_work(context, old_job)
            if savepoint is None:
                # The last checkpoint is known now, because the job has ended.
                savepoint = self._snapshot_to_start_from(context, old_job)
            return self._record_restart(
                context, old_job, self._answer_or_defer(go_back(old_job, record.run_name, savepoint))
            )

    def _finish(self, answer: Answer) -> Answer:
        if answer.get("went_back") is False:
            skip_task("no need to go back: the job was not stopped, and still runs")
        return super()._finish(answer)

    def answered(self, context: Context, event: dict[str, Any]) -> Answer:
        """Resume when the job runs again."""
        answer = super().answered(context, event)
        with task_errors():
            return self._record_restart(context, job_to_restart_of(self.old_job_document), answer)

    def _record_restart(self, context: Context, old_job: JobToRestart, answer: Answer) -> Answer:
        """Record that the job runs again, and leave the rounds to another run. Return the result of the task.

        `answer` describes the restarted job.
        """
        self._job_record(context, old_job).note(Phase.WENT_BACK)
        self._leave_rounds(context, old_job)
        # Flink may have carried out a request to start the new job long after that request timed out.
        self._end_pending_work(context, old_job)
        return {**answer, "in_place_of": old_job.job_id}

    def _end_pending_work(self, context: Context, old_job: JobToRestart) -> None:
        """End what must not run beside the restarted job: the new job, or a savepoint in progress.

        Defer the task until it has ended.
        """
        while (question := end_pending_work(old_job, self._run_name(context))) is not None:
            if question.ask() is None:
                self._defer(question, "cleared", _PATIENCE_WITH_PENDING_WORK)

    def cleared(self, context: Context, event: dict[str, Any]) -> Answer:
        """Resume when the pending work has ended, and start the job again.

        Does not check again whether the run has handed the job over. Airflow stores this method's name while the task
        is deferred, so the name must not change.
        """
        with task_errors():
            answer_of(event)
            old_job = job_to_restart_of(required_output(LOOK_TASK, self.old_job_document))
        return self._start_again(context, old_job)

    def _snapshot_to_start_from(self, context: Context, old_job: JobToRestart) -> str | None:
        """Return the snapshot to start the job from; None if there is none, or if only Flink knows it.

        The snapshot is the one that `TakeSavepoint` has returned. If that task has no output, but the run has cancelled
        the job, the snapshot is the job's last checkpoint.
        """
        if self.take_output and self.take_output["job"] == old_job.job_id:
            savepoint: str = self.take_output["savepoint"]
            return savepoint
        record = self._job_record(context, old_job)
        if old_job.taking is not StopMode.CHECKPOINT or record.phase is None:
            return None
        with form_access(trimmed_values(context["params"]), reads_source=True):
            from rescale.airflow.flink.checkpoint_stop import checkpoint_for_restart

            return checkpoint_for_restart(old_job, record.checkpoint_number)

    def _leave_rounds(self, context: Context, old_job: JobToRestart) -> None:
        """Leave the rounds of this run to another run, if there are any. Errors are only logged: the job runs again."""
        ti = context["ti"]
        if (target := ti.xcom_pull(task_ids=FOLLOW_TASK, key=FOLLOWED_TARGET_KEY)) is None:
            return
        try:
            delete_pods_of_run(ti.dag_id, ti.run_id)  # a pod that is left over would go on with the last round
            with form_access(trimmed_values(context["params"])):
                from rescale.airflow.claims import identity_of_run
                from rescale.airflow.live.next_run import leave_rounds

                advice = leave_rounds(target, old_job.directory, identity_of_run(context["dag_run"]))
        except RescaleError as error:
            self.log.warning("the rounds cannot be left to another run: %s", error)
        else:
            self.log.info("to rescale the job, %s", advice)


def was_handed_over(record: JobRecord) -> bool:
    """Return whether the run has handed the job over, and has not gone back afterwards."""
    return record.phase is Phase.STARTED


def _question_for_restarted_job(record: JobRecord, savepoint: str | None) -> FlinkQuestion:
    """Return the question for the job that the run has started again. Raises `RescaleError` if that job has ended.

    The job is not started once more: another run may have handed it over, or somebody may have changed it.
    """
    question = question_for_started_job(record.old_job, record.run_name, savepoint, with_old_shape=True)
    if question is None:
        raise RescaleError(
            "this run has started the job again with its old shape, and that job has ended",
            operator=record.old_job.name,
            expected="the job that was started again",
            advice="if no other run has taken that job over, start it from its own last checkpoint",
        )
    return question
