"""Removal of the files that a follower keeps beside its target: rounds, pins and orders, then its documents."""

from __future__ import annotations

from rescale.runstate.places import (
    beside,
    cut_over_place,
    follower_place,
    orders_place,
    pins_place,
    rounds_place,
)
from rescale.snapshot.reading.discovery import METADATA
from rescale.storage.locations import name
from rescale.storage.store import open_store


def remove_follower(target: str) -> list[str]:
    """Remove all files of the target's follower, and return them. The call can be repeated.

    The `_metadata` of a round or of a pinned checkpoint is removed before the files that it refers to.
    """
    store = open_store(beside(target))
    removed: list[str] = []
    for place in (rounds_place(target), pins_place(target), orders_place(target)):
        store.abort_parts(place, lambda _: True)
        files = [entry.uri for entry in store.list(place)]
        _remove([uri for uri in files if name(uri) == METADATA])
        _remove([uri for uri in files if name(uri) != METADATA])
        removed += files
    for document in (cut_over_place(target), follower_place(target)):
        if store.stat(document) is not None:
            store.delete([document])
            removed.append(document)
    return removed


def _remove(uris: list[str]) -> None:
    if uris:
        open_store(uris[0]).delete(uris)
