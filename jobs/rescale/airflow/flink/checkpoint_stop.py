"""Stop a job at its last checkpoint, and find the checkpoint from which it is started again."""

from __future__ import annotations

import time

from rescale.airflow.flink.answer_watch import first_fresh_request_time
from rescale.airflow.flink.final_checkpoint import (
    checkpoint_number,
    final_checkpoint,
    recorded_checkpoint,
    refuse_later_snapshot,
    restart_checkpoint,
)
from rescale.airflow.flink.flink_access import open_flink
from rescale.airflow.flink.job_record import JobRecord
from rescale.airflow.flink.last_checkpoint import cancel, cancel_after_checkpoint
from rescale.airflow.flink.questions import Answer
from rescale.airflow.flink.stopping import JobToRestart
from rescale.flink_rest.running_job import CANCELLING
from rescale.text.errors import RescaleError


def stop_at_checkpoint(old_job: JobToRestart, record: JobRecord) -> Answer:
    """Cancel the job right after a checkpoint, unless an earlier try has cancelled it.

    Return the answer with the last completed checkpoint of the job as `savepoint`. `record` tells later tries that the
    job was cancelled. Raises `RescaleError` if the job has ended otherwise, or if its last checkpoint is uncertain.
    """
    is_cancelled = record.phase is not None
    with open_flink(old_job.flink) as flink:
        job = flink.job_overview(old_job.job_id)
        first_fresh_time: float | None = None
        if is_cancelled and job is not None and job.state == CANCELLING:
            cancel(flink, old_job.job_id)
        elif job is not None and not job.has_ended:
            first_fresh_time = cancel_after_checkpoint(flink, old_job.job_id, old_job.directory, record.note_stop)
        elif not is_cancelled:
            raise RescaleError(
                "the job has ended, and this run has not cancelled it",
                path=old_job.flink,
                operator=old_job.name,
                found="a job that Flink does not know" if job is None else job.state,
                advice="if another run has cancelled the job, that run starts it again; otherwise start it from its "
                "last checkpoint",
            )
        first_fresh_time = first_fresh_time or first_fresh_request_time(flink, time.monotonic())
        job = flink.job_overview(old_job.job_id)
        checkpoint = final_checkpoint(flink, old_job.job_id, old_job.directory, record.checkpoint_number)
        record.note_checkpoint(checkpoint_number(checkpoint))
        refuse_later_snapshot(flink, old_job.job_id, first_fresh_time, checkpoint_number(checkpoint))
    return {"savepoint": checkpoint, "job": old_job.job_id, "state": None if job is None else job.state}


def checkpoint_for_restart(old_job: JobToRestart, known_completed_number: int | None) -> str | None:
    """Return the checkpoint from which to restart a job that this run has cancelled.

    None if the job still runs or has finished by itself. `known_completed_number` is the number of a checkpoint that
    the job had completed before the cancel; None if unknown. Raises `RequestError` if the last checkpoint is uncertain.
    """
    if old_job.is_replaced:
        return recorded_checkpoint(old_job.job_id, old_job.directory, known_completed_number)
    with open_flink(old_job.flink) as flink:
        job = flink.job_overview(old_job.job_id)
        if job is not None and (not job.has_ended or job.state == "FINISHED"):
            return None
        return restart_checkpoint(flink, old_job.job_id, old_job.directory, known_completed_number)
