"""The opposite of publication: what an unpublished run left is taken away."""

from __future__ import annotations

from dataclasses import dataclass

from rescale.errors import RequestError, SnapshotError
from rescale.planning.request import beside
from rescale.storage.locations import name
from rescale.storage.store import open_store
from rescale.target.claim import planned_names
from rescale.target.documents import load_plan
from rescale.target.leftovers import clear_leftovers
from rescale.target.places import Places, claim_place, discarding_place, is_document
from rescale.target.states import MOVES, Move, claimed_by, refuse_unless, state_of


@dataclass(frozen=True)
class Discarded:
    """What `discard` removed, and what it left because it is not ours."""

    removed: tuple[str, ...]
    left: tuple[str, ...]


def discard(target: str) -> Discarded:
    """Removes what an unpublished run left in and beside the target; the claim goes last, so that it can be repeated.

    `RequestError` if the target is published, or if nothing says that what lies there is ours. First of all
    it is written down that this is going on, and then looked again: a run that goes on, too, either has published by
    now, or will find that it must not.
    """
    store, digest = open_store(target), claimed_by(target)
    refuse_unless(state_of(target, digest), Move.DISCARD, target)
    there = [entry.uri for entry in store.list(target)]
    lying_beside = [entry.uri for entry in store.list(beside(target))]
    documents = [uri for uri in lying_beside if is_document(target, uri)]
    if digest is None:
        if there and not documents:
            raise RequestError("nothing of ours lies here", path=target, found=f"{len(there)} files, none claimed")
        ours = []
    else:
        planned = _names_of_the_plan(Places(target, digest)) if there else set()
        ours = [uri for uri in there if name(uri) in planned]
    going_on = discarding_place(target)
    if digest is not None:
        store.put(going_on, b"what lies here is being discarded\n")
        state = state_of(target, digest)
        if Move.DISCARD not in MOVES[state]:
            store.delete([going_on])
            refuse_unless(state, Move.DISCARD, target)
    clear_leftovers(Places(target, digest or ""))
    claim_uri = claim_place(target)
    plans = [uri for uri in documents if name(uri).startswith("plan-")]
    others = [uri for uri in documents if uri not in (claim_uri, going_on, *plans)]
    for batch in (others, ours, [claim_uri], [*plans, going_on]):  # a certificate goes before what it speaks for
        store.delete(batch)
    removed = (*ours, *documents)
    return Discarded(removed, tuple(sorted({*there, *lying_beside} - {*removed})))


def _names_of_the_plan(places: Places) -> set[str]:
    """Of its files; a plan that was damaged would name others, and these would stay when the claim goes."""
    plan = load_plan(places.plan)
    if plan.digest != places.digest:
        raise SnapshotError(
            "the plan is not what was stored: it has another digest than the claim says",
            path=places.plan,
            expected=places.digest,
            found=plan.digest,
            advice="run the command of that plan again, which stores it again, or remove the target's files yourself",
        )
    return planned_names(plan)
