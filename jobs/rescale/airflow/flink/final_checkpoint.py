"""The checkpoint from which an ended job is rescaled or restarted: the last one that Flink reports as completed.

Flink writes `_metadata` before it completes a checkpoint. So the newest `_metadata` may belong to a checkpoint that
Flink aborted when the job ended, together with its Kafka transactions. A start from this checkpoint would lose the
records of these transactions. A start from an older checkpoint would repeat committed records. So a checkpoint is only
rescaled if it is the newest one in the job's directory, and the last one that Flink's REST API reports as completed.

Flink caches its answers about checkpoints for some seconds (`CheckpointStatsCache`). An old answer proves that the
checkpoint in it is completed. But only an answer that Flink made after the job's end proves that no later checkpoint is
completed. After a failover of the JobManager, Flink may report no completed checkpoint yet: then the restored one
counts as the last. If a JobManager without high availability was lost, the new one does not know the job. Then the
checkpoint that was known as completed before the cancel counts as the last, if it is the newest one in the directory.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from rescale.airflow.flink.answer_watch import first_fresh_request_time
from rescale.flink_rest.client import Flink
from rescale.flink_rest.responses import LatestCheckpoints
from rescale.snapshot.reading.discovery import checkpoint_directory, complete_checkpoints, newest_complete_checkpoint
from rescale.storage.locations import name
from rescale.text.errors import RequestError

_POLL_SECONDS = 0.1


class _CheckpointNumbers(NamedTuple):
    """Numbers of the `newest` checkpoint in the job's directory, and of the last one that Flink reports as `completed`.

    Either is None if there is no such checkpoint. If Flink no longer knows the job (not `is_job_known`), `completed` is
    from before the cancel, and the job may have completed later checkpoints.
    """

    newest: int | None
    completed: int | None
    is_job_known: bool

    @property
    def are_equal(self) -> bool:
        return self.newest is not None and self.newest == self.completed


def final_checkpoint(flink: Flink, job_id: str, checkpoints_directory: str, known_completed_number: int | None) -> str:
    """Return the checkpoint from which an ended job is rescaled: the newest one in `checkpoints_directory`.

    `known_completed_number` is the number of a checkpoint that the job had completed before its end; None if unknown.
    Raises `RequestError` if the newest checkpoint is not the last one that Flink reports as completed, or if the job
    was stopped with a savepoint.
    """
    checkpoint_numbers = _read_numbers(flink, job_id, checkpoints_directory, known_completed_number)
    if not checkpoint_numbers.are_equal:
        raise RequestError(
            "the newest checkpoint in the job's directory is not the one that Flink completed last",
            path=checkpoints_directory,
            operator=job_id,
            expected=f"checkpoint {_number_text(checkpoint_numbers.completed)}, the last one that Flink reports as "
            "completed",
            found=f"checkpoint {_number_text(checkpoint_numbers.newest)}",
            advice="use neither checkpoint: a newer one may have been aborted together with its transactions, and an "
            "older one repeats committed records",
        )
    return checkpoint_directory(checkpoints_directory, checkpoint_numbers.newest or 0)


def restart_checkpoint(
    flink: Flink, job_id: str, checkpoints_directory: str, known_completed_number: int | None
) -> str:
    """Return the checkpoint from which an ended job is started again: the last one that Flink reports as completed.

    For `known_completed_number`, see `final_checkpoint`. Raises `RequestError` if the returned checkpoint is not in
    `checkpoints_directory`, or if the job was stopped with a savepoint. Also raises it if Flink no longer knows the
    job, and `known_completed_number` is not the newest checkpoint in the directory.
    """
    checkpoint_numbers = _read_numbers(flink, job_id, checkpoints_directory, known_completed_number)
    if not (checkpoint_numbers.is_job_known or checkpoint_numbers.are_equal):
        raise _uncertain_error(checkpoints_directory, job_id, checkpoint_numbers)
    return _directory_of_completed(checkpoints_directory, job_id, checkpoint_numbers)


def recorded_checkpoint(job_id: str, checkpoints_directory: str, final_number: int | None) -> str:
    """Return the checkpoint with `final_number`, which the run recorded as the job's last one before a redeployment.

    Raises `RequestError` if it is not in `checkpoints_directory`.
    """
    checkpoint_numbers = _CheckpointNumbers(
        newest_complete_checkpoint(checkpoints_directory), final_number, is_job_known=False
    )
    return _directory_of_completed(checkpoints_directory, job_id, checkpoint_numbers)


def _directory_of_completed(checkpoints_directory: str, job_id: str, checkpoint_numbers: _CheckpointNumbers) -> str:
    if checkpoint_numbers.completed is None or checkpoint_numbers.completed not in complete_checkpoints(
        checkpoints_directory
    ):
        raise _uncertain_error(checkpoints_directory, job_id, checkpoint_numbers)
    return checkpoint_directory(checkpoints_directory, checkpoint_numbers.completed)


def _uncertain_error(checkpoints_directory: str, job_id: str, checkpoint_numbers: _CheckpointNumbers) -> RequestError:
    return RequestError(
        "it is uncertain which checkpoint the job completed last, so the job is not started again",
        path=checkpoints_directory,
        operator=job_id,
        expected=f"checkpoint {_number_text(checkpoint_numbers.completed)}, the last one that Flink reports as "
        "completed",
        found=f"checkpoint {_number_text(checkpoint_numbers.newest)} as the newest one",
        advice="find out from the JobManager's log which checkpoint was completed last, and start the job from it",
    )


def checkpoint_number(checkpoint: str) -> int:
    """Return the number of a checkpoint in a directory chk-N."""
    return int(name(checkpoint).removeprefix("chk-"))


def refuse_later_snapshot(flink: Flink, job_id: str, first_fresh_time: float, newest_number: int) -> None:
    """Raise `RequestError` if the job has completed a later checkpoint than `newest_number`.

    `newest_number` is the newest checkpoint that the store listed in the job's directory. Also raises the error if
    somebody else has stopped the job with a savepoint after that checkpoint. An old listing of the directory may agree
    with an old answer of Flink. So Flink is asked until `first_fresh_time`, a time of `time.monotonic` from which
    answers show the job's end.
    """
    while (latest_checkpoints := flink.latest_checkpoints(job_id)) is not None:
        _refuse_stop_by_others(flink, job_id, latest_checkpoints)
        if (completed_number := _completed_number(latest_checkpoints) or 0) > newest_number:
            raise RequestError(
                "the store's listing of the job's checkpoints is outdated: Flink has completed a later one",
                path=flink.address,
                operator=job_id,
                expected=f"checkpoint {newest_number}, the newest one in the directory",
                found=f"checkpoint {completed_number}",
                advice="let the worker list that directory without a cache, then trigger another run",
            )
        if time.monotonic() >= first_fresh_time:
            return
        time.sleep(_POLL_SECONDS)


def refuse_checkpoints_of_earlier_start(flink: Flink, job_id: str, checkpoints_directory: str) -> None:
    """Raise `RequestError` if the newest checkpoint in a running job's directory is from an earlier start of the job.

    With high availability, all starts of a job may have the same id, and leave their checkpoints in the same directory.
    """
    newest_number = newest_complete_checkpoint(checkpoints_directory)
    first_fresh_time = first_fresh_request_time(flink, time.monotonic())
    completed_number: int | None = None
    # If the checkpoint is gone, it is not from an earlier start: Flink deletes no checkpoints of those.
    while newest_number is not None and newest_number in complete_checkpoints(checkpoints_directory):
        completed_number = _completed_number(flink.latest_checkpoints(job_id))
        if completed_number is not None and completed_number >= newest_number:
            return
        if time.monotonic() >= first_fresh_time:
            raise RequestError(
                "the newest checkpoint in the job's directory is from an earlier start of the job",
                path=checkpoints_directory,
                operator=job_id,
                expected=f"checkpoint {_number_text(completed_number)}, the last one that Flink reports as completed",
                found=f"checkpoint {newest_number}",
                advice="move the checkpoints of earlier starts away; or take a savepoint instead",
            )
        time.sleep(_POLL_SECONDS)


def _read_numbers(
    flink: Flink, job_id: str, checkpoints_directory: str, known_completed_number: int | None
) -> _CheckpointNumbers:
    """Return the checkpoint numbers once Flink's answer agrees with the directory, or is newer than this call.

    Returns at once if Flink does not know the job.
    """
    call_time = time.monotonic()
    first_fresh_time: float | None = None
    while True:
        latest_checkpoints = flink.latest_checkpoints(job_id)
        if latest_checkpoints is not None:
            _refuse_stop_by_others(flink, job_id, latest_checkpoints)
        completed_number = _completed_number(latest_checkpoints)
        last_completed_number = (
            known_completed_number if completed_number is None else max(completed_number, known_completed_number or 0)
        )
        checkpoint_numbers = _CheckpointNumbers(
            newest_complete_checkpoint(checkpoints_directory), last_completed_number, latest_checkpoints is not None
        )
        if checkpoint_numbers.are_equal or latest_checkpoints is None:
            return checkpoint_numbers
        first_fresh_time = first_fresh_time or first_fresh_request_time(flink, call_time)
        if time.monotonic() >= first_fresh_time:
            return checkpoint_numbers
        time.sleep(_POLL_SECONDS)


def _completed_number(latest_checkpoints: LatestCheckpoints | None) -> int | None:
    """Return the number of the last checkpoint that was completed or restored; None if Flink reports none."""
    if latest_checkpoints is None:
        return None
    snapshot_ids = [
        snapshot.id for snapshot in (latest_checkpoints.completed, latest_checkpoints.restored) if snapshot is not None
    ]
    return max(snapshot_ids, default=None)


def _refuse_stop_by_others(flink: Flink, job_id: str, latest_checkpoints: LatestCheckpoints) -> None:
    savepoint = latest_checkpoints.savepoint
    if (
        savepoint is not None
        and savepoint.stops_the_job
        and savepoint.id > (_completed_number(latest_checkpoints) or 0)
    ):
        raise RequestError(
            "somebody else has stopped the job with a savepoint, and its sinks have committed: a start from the "
            "last checkpoint would repeat their output, so the job is not started",
            path=flink.address,
            operator=job_id,
            expected="a job that only this run stops",
            found=savepoint.external_path,
            advice="start the job from that savepoint, or rescale it first",
        )


def _number_text(number: int | None) -> str:
    return "none" if number is None else str(number)
