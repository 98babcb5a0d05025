"""A running job's latest checkpoint, which shows what its savepoint will hold; there may be none that can be read.

It may lie in the memory of the JobManager, where this worker has no access, or be gone: Flink deletes each one when the
next is there.
"""

from __future__ import annotations

from typing import NamedTuple

from rescale.errors import RescaleError, StoreError
from rescale.flink.metadata.properties import SnapshotType
from rescale.orchestration.flink.rest import Flink
from rescale.orchestration.flink.running_job import Job
from rescale.planning.asked.request import Request
from rescale.snapshot.model import Snapshot
from rescale.snapshot.opening import open_snapshot
from rescale.storage.locations import name, normalise, parent

_TRIES = 3
"""What Flink tells may be seconds old (`web.refresh-interval`), and a checkpoint goes when the next one is there."""


class Unread(NamedTuple):
    """Why there is none to look at, in a clause, and the one that Flink told of; `passing` if another try may help."""

    why: str
    place: str | None = None
    passing: StoreError | None = None


def latest_checkpoint(flink: Flink, job: Job, request: Request) -> Snapshot | Unread:
    """As it lies there; what the request drops need not be whole."""
    told = flink.latest_checkpoint(job.job_id)
    if told is None:
        return Unread("it has made no checkpoint since it was started")
    for again in range(_TRIES):
        try:
            place = _place(told, job, again > 0)
            snapshot = open_snapshot(place, request.allow_prefixes, request.uids, request.surgery.drops)
            snapshot.check_complete()
        except RescaleError as error:
            failed = error
            if isinstance(error, StoreError):
                break
        else:
            if snapshot.type in (SnapshotType.CANONICAL_SAVEPOINT, SnapshotType.NATIVE_SAVEPOINT):
                return Unread(f"what Flink calls its latest checkpoint is a {snapshot.type.value}", told)
            return snapshot
    found = "" if failed.found is None else f" ({failed.found})"
    passing = failed if isinstance(failed, StoreError) else None
    return Unread(f"its latest checkpoint cannot be read: {failed.what}{found}", told, passing)


def _place(told: str, job: Job, again: bool) -> str:
    """The checkpoint that Flink told of, or the job's directory, for the newest in it (`createCheckpointDirectory`)."""
    place = normalise(told)
    return parent(place) if again and name(parent(place)) == job.job_id else place
