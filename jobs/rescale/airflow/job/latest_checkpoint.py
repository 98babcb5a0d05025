"""The latest checkpoint of a running job. If it can be read, it shows what the job's savepoint will hold.

It cannot be read if it is in the memory of the JobManager, or in a place without access for this worker. Flink may
delete it as soon as the next one is complete.
"""

from __future__ import annotations

from typing import NamedTuple

from rescale.flink.metadata.properties import SnapshotType
from rescale.flink_rest.client import Flink
from rescale.flink_rest.running_job import Job
from rescale.planning.request.request import Request
from rescale.snapshot.model import Snapshot
from rescale.snapshot.reading.opening import open_snapshot
from rescale.storage.locations import name, normalise, parent
from rescale.text.errors import RescaleError, StoreError

_MOST_ATTEMPTS = 3
"""Attempts to read the checkpoint. Flink's answer may be old (`web.refresh-interval`), and the checkpoint gone."""


class UnreadableCheckpoint(NamedTuple):
    """A checkpoint that cannot be read: the reason as a clause, and the checkpoint's place if Flink knows it.

    `transient_error` is the error if another try may succeed, else None.
    """

    reason: str
    place: str | None = None
    transient_error: StoreError | None = None


def open_latest_checkpoint(flink: Flink, job: Job, request: Request) -> Snapshot | UnreadableCheckpoint:
    """Open the latest checkpoint of a job. Operators that the request drops need not be complete."""
    reported_uri = flink.latest_checkpoint_uri(job.job_id)
    if reported_uri is None:
        return UnreadableCheckpoint("the job has made no checkpoint since it was started")
    for attempt in range(_MOST_ATTEMPTS):
        try:
            place = _place_to_open(reported_uri, job, attempt > 0)
            snapshot = open_snapshot(place, request.allow_prefixes, request.uids, request.surgery.drops, request.moves)
            snapshot.check_complete()
        except RescaleError as error:
            last_error = error
            if isinstance(error, StoreError):
                break
        else:
            if snapshot.type in (SnapshotType.CANONICAL_SAVEPOINT, SnapshotType.NATIVE_SAVEPOINT):
                return UnreadableCheckpoint(
                    f"Flink reports a {snapshot.type.value} as its latest checkpoint", reported_uri
                )
            return snapshot
    found_text = "" if last_error.found is None else f" ({last_error.found})"
    reason = f"the latest checkpoint cannot be read: {last_error.what}{found_text}"
    return UnreadableCheckpoint(reason, reported_uri, last_error if isinstance(last_error, StoreError) else None)


def _place_to_open(reported_uri: str, job: Job, is_retry: bool) -> str:
    """Return the checkpoint that Flink reported; for a retry, return the directory of the job's checkpoints.

    Opening that directory opens the newest checkpoint in it. The name of that directory is the job's id
    (`getCheckpointDirectoryForJob`). If the checkpoint is in another directory, a retry opens the checkpoint again.
    """
    place = normalise(reported_uri)
    return parent(place) if is_retry and name(parent(place)) == job.job_id else place
