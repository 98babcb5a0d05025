"""Notes of the runs that resume a plan under its claim.

A claim names the run that made it. A later run of the same plan works under the same claim, and the first run may have
ended by then. So each later run leaves a note beside the target, and a check for active runs covers them all. Nothing
in a target depends on these notes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from rescale.plan.plan import Plan
from rescale.runstate.documents import put_document, read_document
from rescale.runstate.places import places_of, run_directory
from rescale.runstate.states import Claim, claim_on
from rescale.storage.locations import name
from rescale.storage.store import exists, open_store
from rescale.text.errors import RequestError


def note_run(plan: Plan, run_identity: Mapping[str, str]) -> None:
    """Write a note that this run works for the plan that has claimed its target, unless the claim names this run."""
    claim = claim_on(plan.target)
    if claim is None or claim.by == run_identity:
        return
    note_data = json.dumps(dict(run_identity), sort_keys=True).encode()
    uri = places_of(plan).run_note(hashlib.sha256(note_data).hexdigest()[:16])
    if not exists(uri):
        put_document(uri, note_data)


def runs_under(claim: Claim, target: str) -> list[Mapping[str, str]]:
    """Return the runs that have worked for the plan of a claim; the run that made the claim comes first.

    Raises `RequestError` for a file that has the name of a note, but is not a note.
    """
    note_uris = [entry.uri for entry in open_store(target).list(run_directory(target))]
    return [claim.by, *(_read_note(uri) for uri in note_uris if name(uri).startswith(f"run-{claim.plan_digest[:8]}-"))]


def _read_note(uri: str) -> dict[str, str]:
    data = read_document(uri)
    try:
        return {str(key): str(value) for key, value in json.loads(data).items()}
    except (ValueError, AttributeError, RecursionError):
        raise RequestError(
            "a file beside the target has the name of a run's note, but Rescale did not write it",
            path=uri,
            advice="find out what wrote it, and remove it if no run is active",
        ) from None
