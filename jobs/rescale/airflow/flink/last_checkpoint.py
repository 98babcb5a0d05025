"""A job's last checkpoint as the source: the job is cancelled right after the checkpoint; no savepoint is written.

As after a failure, the restarted job processes all records after the checkpoint again. Flink must retain the checkpoint
when the job is cancelled. The checkpoint must not hold records in flight, which belong to the old subtasks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar
from uuid import uuid4

from rescale.airflow.flink.answer_watch import AnswerWatch
from rescale.airflow.flink.final_checkpoint import refuse_checkpoints_of_earlier_start
from rescale.flink.metadata.reader import read_metadata
from rescale.flink_rest.client import Flink
from rescale.flink_rest.running_job import CANCELLING, JobOverview
from rescale.snapshot.reading.discovery import METADATA, checkpoint_directory, newest_complete_checkpoint
from rescale.snapshot.reading.opening import METADATA_LIMIT_BYTES
from rescale.storage.locations import join, name, normalise, parent
from rescale.storage.store import open_store
from rescale.text.errors import RequestError, RescaleError, StoreError, UnsupportedError

REPEATED_RECORDS = (
    "Records after the job's last checkpoint are processed again, as after a failure: sinks that are not exactly-once "
    "repeat them. If the parallelism becomes smaller, a KafkaSink with pooled transactions may leave one open, which "
    "holds up readers with read_committed until it times out (FLINK-40626)."
)
"""Sentences for plans and questions on a start from a job's last checkpoint."""

T = TypeVar("T")

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.1
_CHECKPOINT_TIMEOUT_SECONDS = 3600
_CANCEL_TIMEOUT_SECONDS = 600
_MOST_ATTEMPTS = 4
"""Largest number of checkpoints to take until one holds no records in flight, and of tries to read the newest one."""

_REQUIRED_RETENTION = "execution.checkpointing.externalized-checkpoint-retention: RETAIN_ON_CANCELLATION"
_CHOOSE_SAVEPOINT = 'choose a savepoint under "What becomes of the job"'


def checkpoint_directory_of(flink: Flink, job_id: str) -> str:
    """Return the directory of a job's checkpoints, in which Flink keeps the last checkpoint when the job is cancelled.

    Raises `RequestError` if Flink would delete that checkpoint, if the job has made no checkpoint yet, or if the
    directory has newer checkpoints from an earlier start of the job.
    """
    config = flink.checkpoint_config(job_id)
    is_retained = config is not None and config.externalization.enabled
    if config is None or not is_retained or config.externalization.delete_on_cancellation:
        raise RequestError(
            "Flink would delete the job's checkpoints when the job is cancelled"
            if config is not None
            else "the job makes no checkpoints",
            path=flink.address,
            expected=_REQUIRED_RETENTION,
            found="checkpoints that are kept only if the job fails" if is_retained else "no retained checkpoints",
            advice=f"start the job with this option from a savepoint; or {_CHOOSE_SAVEPOINT}",
        )
    checkpoint = flink.latest_checkpoint_uri(job_id)
    if checkpoint is None or not name(normalise(checkpoint)).startswith("chk-"):
        raise RequestError(
            "the job has stored no checkpoint in a directory since it was started",
            path=flink.address,
            expected="a checkpoint in a directory chk-N",
            found=checkpoint,
            advice=f"wait for the job's next checkpoint, and check state.checkpoints.dir; or {_CHOOSE_SAVEPOINT}",
        )
    checkpoints_directory = parent(normalise(checkpoint))
    refuse_checkpoints_of_earlier_start(flink, job_id, checkpoints_directory)
    return checkpoints_directory


def take_checkpoint(flink: Flink, job_id: str) -> int | None:
    """Let a job make a checkpoint, wait for it, and return its number.

    Raises `StoreError` if the checkpoint fails, or takes longer than `_CHECKPOINT_TIMEOUT_SECONDS`.
    """
    trigger_id, deadline = uuid4().hex, time.monotonic() + _CHECKPOINT_TIMEOUT_SECONDS
    flink.trigger_checkpoint(job_id, trigger_id)
    while time.monotonic() < deadline:
        progress = flink.triggered_checkpoint(job_id, trigger_id)
        if progress is None or progress.failure is not None:
            failure = None if progress is None else progress.failure
            raise StoreError("Flink could not take a checkpoint", path=flink.address, operator=job_id, found=failure)
        if progress.has_ended:
            return progress.number
        time.sleep(_POLL_SECONDS)
    raise StoreError(
        "Flink has not ended a checkpoint in time", path=flink.address, found=f"{_CHECKPOINT_TIMEOUT_SECONDS} s"
    )


def cancel_after_checkpoint(
    flink: Flink, job_id: str, checkpoints_directory: str, before_cancel: Callable[[int | None], None]
) -> float:
    """Take checkpoints until one can be a source, call `before_cancel`, cancel the job, and wait for its end.

    The first checkpoint may take long, so a second one follows at once: then few records arrive between the last
    checkpoint and the cancel. The cancel comes right before Flink's cached answer about checkpoints expires, if that
    time can be told (`AnswerWatch`). `before_cancel` gets the number of the last checkpoint. The result is the time, by
    `time.monotonic`, from which all of Flink's answers show the job's end.
    """
    take_checkpoint(flink, job_id)
    with AnswerWatch(flink, job_id) as answers:
        checkpoint_number = take_source_checkpoint(flink, job_id, checkpoints_directory)
        answers.wait_until_answer_expires_soon()
        before_cancel(checkpoint_number)
        cancel(flink, job_id)
        job_end_time = time.monotonic()
    return answers.first_fresh_request_time(job_end_time)


def take_source_checkpoint(flink: Flink, job_id: str, checkpoints_directory: str) -> int | None:
    """Let a job make a checkpoint without records in flight, and return its number.

    Raises `UnsupportedError` if `_MOST_ATTEMPTS` checkpoints hold records in flight, and `RequestError` if the
    directory has newer checkpoints from an earlier start of the job.
    """
    for _ in range(_MOST_ATTEMPTS):
        checkpoint_number = take_checkpoint(flink, job_id)
        if (newest_complete_checkpoint(checkpoints_directory) or 0) > (checkpoint_number or 0):
            refuse_checkpoints_of_earlier_start(flink, job_id, checkpoints_directory)
        if not with_newest_checkpoint(checkpoints_directory, holds_records_in_flight):
            return checkpoint_number
    raise UnsupportedError(
        "the job's checkpoints hold records in flight, which belong to the old subtasks",
        path=checkpoints_directory,
        expected="a checkpoint without records in flight",
        found=f"records in flight in each of {_MOST_ATTEMPTS} checkpoints",
        advice=f"{_CHOOSE_SAVEPOINT}: a savepoint never holds records in flight; or set "
        "execution.checkpointing.aligned-checkpoint-timeout, so that a checkpoint is aligned unless that takes longer",
    )


def cancel(flink: Flink, job_id: str) -> None:
    """Cancel a job, and wait for its end. Raises `RescaleError` if the job finished by itself.

    The request is repeated if Flink does not answer it, or if a failover of the JobManager undoes it. Raises
    `StoreError` if the job has not ended after `_CANCEL_TIMEOUT_SECONDS`.
    """
    deadline = time.monotonic() + _CANCEL_TIMEOUT_SECONDS
    job: JobOverview | None = None
    while True:
        try:
            job = flink.job_overview(job_id)
            if job is None or job.has_ended:
                break
            if job.state != CANCELLING:
                flink.cancel(job_id)
        except StoreError as error:
            if time.monotonic() > deadline:
                raise
            log.warning("%s", error)
        if time.monotonic() > deadline:
            state = job and job.state
            raise StoreError("the job has not ended in time", path=flink.address, found=f"{job_id}: {state}")
        time.sleep(_POLL_SECONDS)
    if job is not None and job.state == "FINISHED":
        raise RescaleError(
            "the job has finished by itself: nothing is left to hand over", path=flink.address, operator=job.name
        )
    log.info("the job has ended: %s", "no longer known to Flink" if job is None else job.state)


def newest_checkpoint(checkpoints_directory: str) -> str:
    """Return the newest complete checkpoint in a job's directory. Raises `RequestError` if there is none."""
    newest_number = newest_complete_checkpoint(checkpoints_directory)
    if newest_number is None:
        raise RequestError(
            "the job has left no checkpoint",
            path=checkpoints_directory,
            expected=f"a directory chk-N with _metadata ({_REQUIRED_RETENTION})",
        )
    return checkpoint_directory(checkpoints_directory, newest_number)


def with_newest_checkpoint(checkpoints_directory: str, read: Callable[[str], T]) -> T:
    """Return the result of `read` for a running job's newest checkpoint.

    If Flink deletes this checkpoint while `read` runs, because the next one is complete, `read` gets the next.
    """
    for _ in range(_MOST_ATTEMPTS):
        checkpoint = newest_checkpoint(checkpoints_directory)
        try:
            return read(checkpoint)
        except RescaleError:
            if newest_checkpoint(checkpoints_directory) == checkpoint:
                raise
    raise StoreError(
        "Flink deletes the job's checkpoints before they can be read",
        path=checkpoints_directory,
        found=f"a newer checkpoint in each of {_MOST_ATTEMPTS} attempts",
        advice="let Flink retain more checkpoints (execution.checkpointing.num-retained), or make them less often",
    )


def holds_records_in_flight(checkpoint: str) -> bool:
    uri = join(checkpoint, METADATA)
    metadata = read_metadata(open_store(uri).read_all(uri, METADATA_LIMIT_BYTES)[0], uri)
    states = [subtask.state for operator in metadata.operators for subtask in operator.subtasks]
    return any(state is not None and (state.input_channels or state.output_channels) for state in states)
