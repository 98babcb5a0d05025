"""Finds the `_metadata` of a snapshot; in a job's directory, the `_metadata` of its newest complete checkpoint.

Flink writes the checkpoints of a job as `<directory>/<job id>/chk-N`; a checkpoint without `_metadata` is incomplete.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from operator import itemgetter

from rescale.storage.locations import join, name, parent
from rescale.storage.side_by_side import side_by_side
from rescale.storage.store import exists, open_store
from rescale.text.errors import RequestError, RescaleError

METADATA = "_metadata"

_CHECKPOINT_PREFIX = "chk-"


class NoSnapshotError(RequestError):
    """There is no snapshot at a place that should have one."""


def find_metadata(uri: str) -> str:
    """Return the URI of the `_metadata` of the snapshot at `uri`.

    Raises `NoSnapshotError` if there is none, and the errors of `refuse_two_starts`.
    """
    metadata_uri = uri if name(uri) == METADATA else join(uri, METADATA)
    if exists(metadata_uri):
        return metadata_uri
    checkpoint_numbers = complete_checkpoints(uri) if uri not in (metadata_uri, parent(uri)) else []
    if not checkpoint_numbers:
        raise NoSnapshotError(
            "there is no snapshot",
            path=metadata_uri,
            expected="a directory with a file _metadata (a savepoint, a checkpoint, or a result that a run has "
            "published), or a job's directory with complete checkpoints (chk-N)",
            advice="name the directory that Flink printed when it took the savepoint, or the target of a run that has "
            "published its result",
        )
    refuse_two_starts(uri, checkpoint_numbers)
    return join(checkpoint_directory(uri, checkpoint_numbers[-1]), METADATA)


def holds_snapshot(directory: str) -> bool:
    """Return whether a directory holds a snapshot; False if it cannot be read."""
    with suppress(RescaleError):
        return exists(join(directory, METADATA))
    return False


def complete_checkpoints(directory: str, metadata_name: str = METADATA) -> list[int]:
    """Return the ids of the complete checkpoints in a job's directory, in ascending order.

    A complete checkpoint has a file `metadata_name`.
    """
    metadata_pattern = re.compile(rf"{_CHECKPOINT_PREFIX}([0-9]+)/{metadata_name}")
    return sorted(
        int(match[1])
        for entry in open_store(directory).list(directory, _CHECKPOINT_PREFIX)
        if (match := metadata_pattern.fullmatch(entry.uri[len(directory) :].lstrip("/")))
    )


def newest_complete_checkpoint(directory: str) -> int | None:
    """Return the id of the newest complete checkpoint in a job's directory; None without one."""
    return max(complete_checkpoints(directory), default=None)


def refuse_two_starts(directory: str, checkpoint_numbers: Sequence[int]) -> None:
    """Raise `RequestError` if one of these complete checkpoints was written after the one with the highest number.

    Checkpoint numbers rise while the job runs, and go on rising if the job is restored from its last checkpoint. They
    begin at 1 again after a start without state, and go on from an older snapshot's number after a restore from it.
    With high availability, all starts of a job may have the same job id, and so the same directory.
    """
    metadata_uris = [join(checkpoint_directory(directory, number), METADATA) for number in checkpoint_numbers]
    write_times = side_by_side(open_store(directory).modification_time, metadata_uris)
    times_and_numbers = [
        (time, number) for time, number in zip(write_times, checkpoint_numbers, strict=True) if time is not None
    ]
    if not times_and_numbers or (last_written := max(times_and_numbers)) == (
        highest_numbered := max(times_and_numbers, key=itemgetter(1))
    ):
        return
    raise RequestError(
        "the directory holds checkpoints of two starts of a job: the one with the highest number is not the last one",
        path=directory,
        expected=f"no checkpoint that was written after chk-{highest_numbered[1]} "
        f"({highest_numbered[0]:%Y-%m-%d %H:%M:%S})",
        found=f"chk-{last_written[1]} ({last_written[0]:%Y-%m-%d %H:%M:%S})",
        advice="move the checkpoints of the earlier start elsewhere; or name one of them by its own directory chk-N",
    )


def checkpoint_directory(directory: str, checkpoint_number: int) -> str:
    """Return the directory of a checkpoint, by its id, in a job's directory (`AbstractFsCheckpointStorageAccess`)."""
    return join(directory, f"{_CHECKPOINT_PREFIX}{checkpoint_number}")
