"""The opposite of publication: what an unpublished run left is taken away."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rescale.errors import RequestError, StoreError
from rescale.planning.asked.request import beside
from rescale.storage.locations import name
from rescale.storage.store import open_store
from rescale.target.claim import planned_names
from rescale.target.documents import load_plan, read_document
from rescale.target.leftovers import clear_leftovers
from rescale.target.places import Places, discarding_place, is_document, plan_in_name
from rescale.target.states import MOVES, Move, State, claim_on, claimed_by, is_being_discarded, refuse_unless, state_of

_NOTE = "what lies here is being discarded; it is of plan {}\n"
_PLAN = re.compile(rb"[0-9a-f]{64}")

_AT_ONCE = 500
"""Files that are deleted until it is looked whether that is still to be done."""

_LOOKS = 3
"""How often what came meanwhile is removed before that is an error; a listing that was behind is no more than one."""


@dataclass(frozen=True)
class Discarded:
    """What `discard` removed, and what it left because it is not ours."""

    removed: tuple[str, ...]
    left: tuple[str, ...]


def discard(target: str) -> Discarded:
    """Removes what an unpublished run left in and beside the target; the claim goes last, so that it can be repeated.

    `RequestError` if the target is or was published, or may have been, if nothing says that what lies there is ours, or
    if more of it comes all the while. First of all it is written down that this is going on, and then looked again: a
    run that goes on, too, either has its mark there by now, or will find that it must not publish.
    """
    store, digest = open_store(target), claimed_by(target)
    whose = digest or _noted_plan(target)  # behind the claim, of what a killed one left, only its note knows
    going_on = discarding_place(target)
    state = state_of(target, digest)
    _give_way(state, target)
    there = [entry.uri for entry in store.list(target)]
    lying_beside = [entry.uri for entry in store.list(beside(target))]
    documents = [uri for uri in lying_beside if is_document(target, uri)]
    if digest is None:
        if there and not documents:
            raise _nothing_of_ours(target, there)
        ours: list[str] = []
    elif state is State.EMPTIED:
        refuse_unless(State.GONE if there else state, Move.DISCARD, target)
        ours = []
    else:
        # a plan that was damaged would name others, which would stay when the claim goes: it is not loaded
        planned = planned_names(load_plan(Places(target, digest).plan)) if there else ()
        ours = [uri for uri in there if name(uri) in planned]
    if digest is not None:
        _say_that_it_goes_on(Places(target, digest), going_on)
        _give_way(state_of(target, digest), target)
    places = Places(target, "")
    clear_leftovers(places)
    plans = [uri for uri in documents if name(uri).startswith("plan-")]
    last = ([places.published], [places.claim], [*plans, places.publishing], [going_on])
    _give_way_to_another(target, whose)
    _delete_if_there([places.certificate], target)  # it goes before what it speaks for
    store.delete([uri for uri in documents if not any(uri in batch for batch in (*last, [places.certificate]))])
    for at in range(0, len(ours), _AT_ONCE):
        _give_way_to_another(target, whose)
        store.delete(ours[at : at + _AT_ONCE])
    if whose is not None and state is not State.EMPTIED:
        ours += _remove_what_came(target, whose)
    for batch in last:
        _give_way_to_another(target, whose)
        _delete_if_there(batch, target)
    removed = (*ours, *documents)
    return Discarded(removed, tuple(sorted({*there, *lying_beside} - {*removed})))


def _noted_plan(target: str) -> str | None:
    """The digest of the plan that is being discarded; None if nothing is, or nothing says of which plan."""
    note = discarding_place(target)
    found = _PLAN.search(read_document(note)) if is_being_discarded(target) else None
    return found[0].decode() if found else None


def _say_that_it_goes_on(places: Places, note: str) -> None:
    """On a full disk what nobody needs any more makes room for the note: what was staged, and pages about the run."""
    store, said = open_store(places.target), _NOTE.format(places.digest).encode()
    try:
        store.put(note, said)
    except StoreError:
        clear_leftovers(places)
        _delete_if_there([places.report, places.report_data, places.plan_page], places.target)
        store.put(note, said)


def _give_way(state: State, target: str) -> None:
    """Where nothing may be discarded in this state, nothing is being discarded either."""
    if Move.DISCARD not in MOVES[state]:
        _delete_if_there([discarding_place(target)], target)
    refuse_unless(state, Move.DISCARD, target)


def _give_way_to_another(target: str, digest: str | None) -> None:
    """Who stood still may find that another one has come to the end, and that what lies here is a new run's.

    `digest` is that of the plan which is discarded; without one there is no note, and was no claim.
    """
    if digest is None and (claim := claim_on(target)) is not None:
        raise RequestError(
            "the target was claimed by a run meanwhile",
            path=target,
            found=claim,
            advice=f"see what that run does; if what it leaves is to go, too: rescale discard {target}",
        )
    if digest is not None and not is_being_discarded(target):
        raise RequestError(
            "the target was discarded by another one meanwhile, who came to the end",
            path=target,
            advice=f"see what lies there now; if it is to go, too: rescale discard {target}",
        )


def _delete_if_there(uris: Sequence[str], target: str) -> None:
    """Who may delete only what he has put there is not asked for more."""
    store = open_store(target)
    store.delete([uri for uri, pin in zip(uris, store.stats(uris), strict=True) if pin is not None])


def _remove_what_came(target: str, digest: str) -> list[str]:
    """Meanwhile, from a task that was thought lost; it removes that, and `RequestError` if there is no end to it.

    Claim and note stay then: nobody begins here as long as somebody writes.
    """
    store = open_store(target)
    removed: list[str] = []
    for _ in range(_LOOKS):
        came = [entry.uri for entry in store.list(target) if plan_in_name(name(entry.uri)) == digest[:8]]
        if not came:
            return removed
        _give_way_to_another(target, digest)
        store.delete(came)
        removed += came
    raise RequestError(
        "the run that is to be discarded goes on: it writes new files",
        path=target,
        found=f"{len(removed)} of them, which were removed, the last one {removed[-1]}",
        advice=f"end that run, then remove what it left: rescale discard {target}",
    )


def _nothing_of_ours(target: str, there: Sequence[str]) -> RequestError:
    late = [uri for uri in there if plan_in_name(name(uri)) is not None]
    if not late:
        return RequestError("nothing of ours lies here", path=target, found=f"{len(there)} files, none claimed")
    return RequestError(
        "files are named as those of a run, and no claim says that they may go",
        path=target,
        found=f"{len(late)} of plan {plan_in_name(name(late[0]))} and perhaps others, such as {late[0]}",
        advice="a run that went on after it was discarded leaves such files, and so does who moves or takes apart a "
        "published result: remove them yourself if nothing refers to them, or repeat that run, which takes them over",
    )
