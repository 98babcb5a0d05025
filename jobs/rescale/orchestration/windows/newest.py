"""The newest savepoint below a directory."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from rescale.errors import RequestError
from rescale.snapshot.discovery import METADATA
from rescale.storage.locations import name, parent
from rescale.storage.side_by_side import side_by_side
from rescale.storage.store import open_store
from rescale.target.places import claim_place


class Found(NamedTuple):
    """A complete snapshot, and when its `_metadata` was written."""

    written: datetime
    uri: str


def newest_savepoint(directory: str) -> Found:
    """What was written last below a directory, results of our own apart; `RequestError` if there is nothing."""
    store = open_store(directory)
    there = {entry.uri for entry in store.list(directory)}
    complete = [parent(uri) for uri in there if name(uri) == METADATA]
    taken = [uri for uri in complete if claim_place(uri) not in there]
    written = side_by_side(lambda uri: store.modified(f"{uri}/{METADATA}"), taken)
    found = [Found(when, uri) for uri, when in zip(taken, written, strict=True) if when is not None]
    if not found:
        raise RequestError(
            "there is no savepoint",
            path=directory,
            expected="directories with a file _metadata below it",
            advice="name the directory that Flink writes the job's savepoints into",
        )
    return max(found)
