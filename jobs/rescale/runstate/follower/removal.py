"""Removes the files that a follower keeps beside its target: rounds, pins and orders, then its documents."""

from __future__ import annotations

from collections.abc import Sequence

from rescale.runstate.places import (
    CLAIM,
    cut_over_place,
    follower_place,
    orders_place,
    pins_place,
    rounds_place,
    run_directory,
)
from rescale.snapshot.reading.discovery import METADATA
from rescale.storage.locations import name
from rescale.storage.store import Store, exists, open_store

FLUSHED = "_flushed"
"""Name that `_metadata` gets if only the flushed files of its checkpoint are pinned."""


def remove_follower(target: str) -> list[str]:
    """Remove all files of the target's follower, and return their URIs. The call can be repeated."""
    store = open_store(run_directory(target))
    removed_uris: list[str] = []
    for place in (rounds_place(target), pins_place(target), orders_place(target)):
        store.abort_parts(place, lambda _: True)
        uris = [entry.uri for entry in store.list(place)]
        delete_in_order(store, uris)
        removed_uris += uris
    for document in (cut_over_place(target), follower_place(target)):
        if exists(document):
            store.delete([document])
            removed_uris.append(document)
    return removed_uris


def delete_in_order(store: Store, uris: Sequence[str]) -> None:
    """Delete files of rounds or pins: each `_metadata` before the files that it refers to, and claims last.

    As long as the claim of a round exists, a run of another plan sees that files of the round may be left.
    """
    first_names, last_name = (METADATA, FLUSHED), CLAIM
    store.delete([uri for uri in uris if name(uri) in first_names])
    store.delete([uri for uri in uris if name(uri) not in (*first_names, last_name)])
    store.delete([uri for uri in uris if name(uri) == last_name])
