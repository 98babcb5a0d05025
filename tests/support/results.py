"""Files of runs in and beside a target, for comparison with other runs."""

from __future__ import annotations

import json

from rescale.plan.plan import Plan
from rescale.runstate.places import Places, places_of
from rescale.storage.locations import name
from rescale.storage.store import open_store


def files_of(plan: Plan) -> dict[str, bytes]:
    """Return every file of the result, and the documents beside it without their times."""
    store, places = open_store(plan.target), places_of(plan)
    uris = [entry.uri for entry in store.list(plan.target)]
    uris += [places.written_handles("keyed"), places.written_handles("operator"), places.candidate]
    contents = {name(uri): store.read_all(uri, 1 << 30)[0] for uri in uris}
    return {**contents, name(places.certificate): _without_times(store.read_all(places.certificate, 1 << 30)[0])}


def remove(plan: Plan) -> None:
    """Remove the result and everything beside it."""
    store = open_store(plan.target)
    for directory in (plan.target, f"{plan.target}.rescale"):
        store.delete([entry.uri for entry in store.list(directory)])


def unpublish(places: Places) -> None:
    """Restore the state of a run that was killed before it published."""
    open_store(places.target).delete([places.metadata, places.publishing, places.published])


def _without_times(certificate: bytes) -> bytes:
    """Return a certificate without modification times of local files, and without the digest, which depends on them."""
    document = json.loads(certificate)
    del document["document_sha256"]
    for file in document["files"]:
        assert (file.pop("mtime_ns") is None) is (file["etag"] is not None)
    return json.dumps(document).encode()
