"""The record of what a run has done to its job, for all tasks of the run and all their tries.

The record outlives every try, and also the XComs of a task, which Airflow removes before each try. So the task that
goes back knows that the job was stopped, even if the last try of another task was killed at its start. And if somebody
clears a task after days, the task does not start the job once more: by then, another run may have taken the job over.
"""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from rescale.airflow.flink.flink_access import open_flink
from rescale.airflow.flink.questions import FlinkQuestion
from rescale.airflow.flink.stopping import JobToRestart, job_started_by_others, question_for_started_job, still_runs
from rescale.airflow.state_stores import run_state
from rescale.airflow.steps.earlier_tasks import ENDED_STATES, task_states
from rescale.text.errors import RequestError, RescaleError, StoreError

log = logging.getLogger(__name__)

RECORD_KEY = "job"
"""Key of the record in the state of the run."""


class Phase(StrEnum):
    """Last action of a run on its job."""

    STOPS = "stops"
    """The run is about to stop the job, or has stopped it."""

    STARTED = "started"
    """The job was started from the result, and all of its tasks ran."""

    GOES_BACK = "goes back"
    """The run is about to start the job with its old shape, or to end the job that was started from the result."""

    WENT_BACK = "went back"
    """The job was started again with its old shape, and all of its tasks ran."""


class RecordedJob(msgspec.Struct, frozen=True):
    """A job that a run has stopped, and the last action of the run on it.

    `checkpoint` is the number of a checkpoint that the job had completed before it was stopped; None if unknown.
    """

    phase: Phase
    old_job: JobToRestart
    checkpoint: int | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether the run has stopped the job, or tried to, and has not started it afterwards."""
        return self.phase in (Phase.STOPS, Phase.GOES_BACK)


def recorded_job(run_name: str) -> RecordedJob | None:
    """Return what the run with this name has recorded about its job; None if the run has stopped no job."""
    document = run_state(run_name).get(RECORD_KEY)
    return None if document is None else msgspec.convert(document, RecordedJob)


def stopped_job(run_name: str) -> JobToRestart | None:
    """Return the job that the run with this name has stopped; None if the run has stopped no job, or if the job runs.

    If somebody clears all tasks of the run, they go on with this job. Otherwise the task that looks at the job would
    fail, because the job no longer runs, and no task would start it again.
    """
    recorded = recorded_job(run_name)
    if recorded is None or not recorded.is_stopped:
        return None
    old_job = recorded.old_job
    try:
        with open_flink(old_job.flink) as flink:
            if still_runs(old_job) or job_started_by_others(flink, old_job, run_name) is not None:
                return None
    except StoreError as error:
        log.warning("%s", error)  # the job counts as stopped: later tasks ask Flink again
    log.info("this run has stopped the job %r (%s), and goes on with it", old_job.name, old_job.job_id)
    return old_job


def refuse_handed_over(run_name: str) -> None:
    """Raise `RequestError` if the run with this name has already handed its job over: it must not stop the job again.

    If somebody clears any task of the run, the task that looks at the job runs again: it is a setup, and Airflow clears
    setups with their tasks.
    """
    recorded = recorded_job(run_name)
    if recorded is not None and recorded.phase is Phase.STARTED:
        raise RequestError(
            "this run has already handed its job over, so it does nothing more to the job",
            path=recorded.old_job.target,
            operator=recorded.old_job.name,
            advice="to rescale the job once more, trigger another run with another target",
        )


class JobRecord(NamedTuple):
    """Record of what the run with the name `run_name` has done to `old_job`, for the task instance `ti`."""

    run_name: str
    old_job: JobToRestart
    ti: Any

    @property
    def phase(self) -> Phase | None:
        """Last action of the run on this job; None if the run has not tried to stop it."""
        recorded = self._recorded
        return None if recorded is None else recorded.phase

    @property
    def checkpoint_number(self) -> int | None:
        """Number of a checkpoint that the job had completed before it was cancelled; None if unknown."""
        recorded = self._recorded
        return None if recorded is None else recorded.checkpoint

    def note(self, phase: Phase) -> None:
        """Record `phase` as the last action of the run on the job."""
        self._put(msgspec.structs.replace(self._current_recorded, phase=phase))

    def note_checkpoint(self, checkpoint_number: int | None) -> None:
        """Record the number of a checkpoint from which the job can be started again; None keeps the recorded number."""
        current = self._current_recorded
        self._put(msgspec.structs.replace(current, checkpoint=checkpoint_number or current.checkpoint))

    def note_stop(self, checkpoint_number: int | None = None) -> None:
        """Record that the task is about to stop the job. Raises the error of `refuse_ended_task`.

        Raises `RequestError` if the job was redeployed since the inspection: the run could neither hand the job over
        nor go back.
        """
        self.refuse_ended_task()
        if self.old_job.is_replaced:
            raise RequestError(
                "the job was redeployed since this run looked at it, so the run does not stop it",
                path=self.old_job.flink,
                operator=self.old_job.name,
                expected=f"savepointRedeployNonce {self.old_job.nonce}",
                found="another one",
                advice="clear all tasks of this run, or trigger another one",
            )
        self.note_checkpoint(checkpoint_number)

    def note_start(self) -> None:
        """Record that the job runs from the result. Raises the error of `refuse_ended_task`."""
        self.refuse_ended_task()
        self.note(Phase.STARTED)

    def refuse_ended_task(self) -> None:
        """Raise `RescaleError` if Airflow counts this task as ended: the task must do nothing more to the job.

        If somebody marks a task as failed, its process still runs for some seconds. In this time, the task that goes
        back may already have found that the job still runs, and left it alone.
        """
        if (state := task_states(self.ti).get(self.ti.task_id)) in ENDED_STATES:
            what = "nothing more is done to the job, because somebody has ended this task"
            raise RescaleError(what, expected="a task that runs", found=state)

    def question_if_started(self, snapshot: str | None) -> FlinkQuestion | None:
        """Return the question for the job that the run has started from `snapshot`; None if the run has started no job.

        Raises `RequestError` if that job has ended, or if the run has started the job again with its old shape: in both
        cases, another run may have taken the job over.
        """
        phase = self.phase
        if phase is Phase.WENT_BACK:
            raise RequestError(
                "this run has started the job again with its old shape, so it does not stop or start it any more",
                operator=self.old_job.name,
                advice="to rescale the job, trigger another run with the job's name; or clear all tasks of this run",
            )
        if phase is not Phase.STARTED:
            return None
        if (question := question_for_started_job(self.old_job, self.run_name, snapshot)) is None:
            raise RequestError(
                "this run has already started the job from its result, and that job has ended",
                path=snapshot,
                operator=self.old_job.name,
                expected="the job that was started from this result",
                advice="if no other run has taken that job over, start it from its own last checkpoint",
            )
        return question

    @property
    def _recorded(self) -> RecordedJob | None:
        """The record of this start of the job; None if there is none.

        Job id and nonce identify the start. The job id alone does not: up to release 1.9, Flink's operator gives the
        next job of a FlinkDeployment the same id (FLINK-35831).
        """
        recorded = recorded_job(self.run_name)
        if recorded is None or _id_and_nonce(recorded.old_job) != _id_and_nonce(self.old_job):
            return None
        return recorded

    @property
    def _current_recorded(self) -> RecordedJob:
        return self._recorded or RecordedJob(Phase.STOPS, self.old_job)

    def _put(self, recorded: RecordedJob) -> None:
        run_state(self.run_name).set(RECORD_KEY, msgspec.to_builtins(recorded))


def _id_and_nonce(job: JobToRestart) -> tuple[str, int | None]:
    return job.job_id, job.nonce
