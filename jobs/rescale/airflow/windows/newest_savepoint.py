"""Finds the newest savepoint below a directory."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from rescale.runstate.places import claim_place, is_in_follower_directory
from rescale.snapshot.reading.discovery import METADATA
from rescale.storage.locations import name, parent
from rescale.storage.side_by_side import side_by_side
from rescale.storage.store import open_store
from rescale.text.errors import RequestError


class DatedSnapshot(NamedTuple):
    """A complete snapshot, and the time at which its `_metadata` was written."""

    write_time: datetime
    uri: str


def newest_savepoint(directory: str) -> DatedSnapshot:
    """Return the newest complete snapshot below a directory.

    Ignores targets of Rescale, and the files that Rescale keeps while it follows a job (`is_in_follower_directory`).
    Raises `RequestError` if there is none.
    """
    store = open_store(directory)
    file_uris = {entry.uri for entry in store.list(directory)}
    snapshot_uris = [parent(uri) for uri in file_uris if name(uri) == METADATA]
    flink_snapshot_uris = [
        uri for uri in snapshot_uris if claim_place(uri) not in file_uris and not is_in_follower_directory(uri)
    ]
    write_times = side_by_side(lambda uri: store.modification_time(f"{uri}/{METADATA}"), flink_snapshot_uris)
    dated_snapshots = [
        DatedSnapshot(write_time, uri)
        for uri, write_time in zip(flink_snapshot_uris, write_times, strict=True)
        if write_time is not None
    ]
    if not dated_snapshots:
        raise RequestError(
            "there is no savepoint below the directory",
            path=directory,
            expected="directories with a file _metadata",
            advice="name the directory in which Flink writes the job's savepoints",
        )
    return max(dated_snapshots)
