"""The runs of a plan that go on under its claim.

A claim names the run that made it. One that comes after it, of the same plan, goes on where it was, and the first one
may be over by then. So it leaves a note of its own beside the target: who asks whether somebody is still at work there
can ask for all of them. Nothing in a target depends on these notes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from rescale.errors import RequestError
from rescale.planning.asked.request import beside
from rescale.planning.values.plan import Plan
from rescale.storage.locations import name
from rescale.storage.store import open_store
from rescale.target.documents import read_document
from rescale.target.places import places_of
from rescale.target.states import Claim, claim_on


def note_run(plan: Plan, by: Mapping[str, str]) -> None:
    """Says that this run of a plan that has claimed its target goes on there, unless the claim says so."""
    claim = claim_on(plan.target)
    if claim is None or claim.by == by:
        return
    said = json.dumps(dict(by), sort_keys=True).encode()
    uri = places_of(plan).run(hashlib.sha256(said).hexdigest()[:16])
    store = open_store(uri)
    if store.stat(uri) is None:
        store.put(uri, said)


def runs_under(claim: Claim, target: str) -> list[Mapping[str, str]]:
    """Who has begun to work for the plan of a claim, the one that made it first; `RequestError` for what is no note."""
    notes = [entry.uri for entry in open_store(target).list(beside(target))]
    return [claim.by, *(_read(uri) for uri in notes if name(uri).startswith(f"run-{claim.plan[:8]}-"))]


def _read(uri: str) -> dict[str, str]:
    data = read_document(uri)
    try:
        return {str(word): str(value) for word, value in json.loads(data).items()}
    except (ValueError, AttributeError, RecursionError):
        raise RequestError(
            "there is a note of a run beside the target that is not one of ours",
            path=uri,
            advice="see whose it is, and remove it if no run goes on there",
        ) from None
