"""Removes the unfinished uploads and temporary files of a killed run, before the result is published.

A lost answer or a killed task leaves an open multipart upload, which the store keeps and bills, or temporary files.
Nothing needs these leftovers once all files of state exist. If another run of the plan is still writing, it starts
these files again.
"""

from __future__ import annotations

from contextlib import suppress

from rescale.runstate.places import Places, is_document, run_directory, short_digest_in_name
from rescale.storage.locations import name
from rescale.storage.store import open_store
from rescale.text.errors import LockedError


def clear_leftovers(places: Places) -> None:
    """Abort unfinished uploads in the target and in the directory beside it, and remove staged files."""
    store, staging = open_store(places.target), places.staging
    store.abort_parts(places.target, lambda uri: uri == places.metadata or short_digest_in_name(name(uri)) is not None)
    store.abort_parts(run_directory(places.target), lambda uri: is_document(places.target, uri))
    staged_uris = [entry.uri for entry in store.list(staging) if is_document(places.target, entry.uri)]
    with suppress(LockedError):  # S3 Object Lock may keep staged files, which do no harm
        store.delete(staged_uris)
