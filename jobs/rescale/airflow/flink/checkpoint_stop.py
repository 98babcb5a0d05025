"""Stop a job at its last checkpoint, and find the checkpoint from which it is started again."""

from __future__ import annotations

import time

from rescale.airflow.flink.answer_watch import first_fresh_request
from rescale.airflow.flink.cancel_mark import CancelMark
from rescale.airflow.flink.final_checkpoint import (
    checkpoint_number,
    final_checkpoint,
    recorded_checkpoint,
    refuse_stop_in_between,
    restart_checkpoint,
)
from rescale.airflow.flink.flink_access import open_flink
from rescale.airflow.flink.last_checkpoint import cancel, cancel_after_checkpoint
from rescale.airflow.flink.questions import Answer
from rescale.airflow.flink.stopping import JobToRestart
from rescale.flink_rest.running_job import CANCELLING
from rescale.text.errors import RescaleError


def stop_at_checkpoint(before: JobToRestart, mark: CancelMark) -> Answer:
    """Cancel the job right after a checkpoint, and return its last completed checkpoint.

    `mark` tells later tries that the job was cancelled.
    """
    is_cancelled = mark.is_set
    mark.renew()
    with open_flink(before.flink) as flink:
        line = flink.line(before.job_id)
        fresh: float | None = None
        if is_cancelled and line is not None and line.state == CANCELLING:
            cancel(flink, before.job_id)
        elif line is not None and not line.ended:
            fresh = cancel_after_checkpoint(flink, before.job_id, before.directory, mark.set_before_cancel)
        elif not is_cancelled:
            raise RescaleError(
                "the job has ended, and this run has not cancelled it",
                path=before.flink,
                operator=before.name,
                found="a job that Flink does not know" if line is None else line.state,
                advice="if another run has cancelled the job, that run starts it again; otherwise start it from its "
                "last checkpoint",
            )
        fresh = fresh or first_fresh_request(flink, time.monotonic())
        line = flink.line(before.job_id)
        checkpoint = final_checkpoint(flink, before.job_id, before.directory, mark.checkpoint)
        mark.set(checkpoint_number(checkpoint))
        refuse_stop_in_between(flink, before.job_id, fresh)
    return {"savepoint": checkpoint, "job": before.job_id, "state": None if line is None else line.state}


def restart_of(before: JobToRestart, known: int | None) -> str | None:
    """Return the checkpoint from which to restart a job that this run has cancelled; None while the job runs.

    `known` is the number of a checkpoint that the job had completed. Raises `RequestError` if it is uncertain which
    checkpoint that is.
    """
    if before.is_replaced:
        return recorded_checkpoint(before.job_id, before.directory, known)
    with open_flink(before.flink) as flink:
        line = flink.line(before.job_id)
        if line is not None and (not line.ended or line.state == "FINISHED"):
            return None
        return restart_checkpoint(flink, before.job_id, before.directory, known)
