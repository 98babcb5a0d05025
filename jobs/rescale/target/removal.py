"""The opposite of publication: what an unpublished run left is taken away."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rescale.errors import RequestError, StoreError
from rescale.names import quoted
from rescale.planning.asked.request import beside
from rescale.storage.locations import name
from rescale.storage.store import open_store
from rescale.target.claim import planned_names
from rescale.target.documents import load_plan, read_document
from rescale.target.leftovers import clear_leftovers
from rescale.target.places import Places, certificate_place, discarding_place, is_document, plan_in_name
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
    digest = claimed_by(target)
    whose = digest or _noted_plan(target)  # behind the claim, of what a killed one left, only its note knows
    state = state_of(target, digest)
    _give_way(state, target)
    lying = _lying(target)
    files = _files_of_the_plan(lying, digest, state)
    if digest is not None:
        _say_that_it_goes_on(Places(target, digest))
        _give_way(state_of(target, digest), target)
    _give_way_to_another(target, whose)
    clear_leftovers(Places(target, ""))
    _remove_documents(lying, whose)
    _remove_files(target, files, whose)
    if whose is not None and state is not State.EMPTIED:
        files += _remove_what_came(target, whose)
    _remove_what_goes_last(lying, whose)
    removed = (*files, *lying.documents)
    return Discarded(removed, tuple(_those_there(sorted({*lying.there, *lying.beside} - {*removed}), target)))


@dataclass(frozen=True)
class _Lying:
    """What lies in a target and beside it, and of the latter the documents of runs."""

    target: str
    there: tuple[str, ...]
    beside: tuple[str, ...]
    documents: tuple[str, ...]

    @property
    def last(self) -> tuple[list[str], ...]:
        """What goes behind all else, in this order, whether it is there or not; the note of the discard itself, too."""
        places = Places(self.target, "")
        plans = [uri for uri in self.documents if name(uri).startswith("plan-")]
        return [places.published], [places.claim], [*plans, places.publishing], [discarding_place(self.target)]


def _lying(target: str) -> _Lying:
    store = open_store(target)
    there, lying_beside = (tuple(entry.uri for entry in store.list(place)) for place in (target, beside(target)))
    return _Lying(target, there, lying_beside, tuple(uri for uri in lying_beside if is_document(target, uri)))


def _files_of_the_plan(lying: _Lying, digest: str | None, state: State) -> list[str]:
    """The files in the target that the plan of this digest has claimed, as far as it tells; `RequestError`.

    Where it is gone, or there is no claim, they go with what came meanwhile.
    """
    if digest is None:
        if lying.there and not lying.documents:
            raise _nothing_of_ours(lying.target, lying.there)
        return []
    if state is State.EMPTIED:
        refuse_unless(State.GONE if lying.there else state, Move.DISCARD, lying.target)
        return []
    if not lying.there:
        return []
    plan = Places(lying.target, digest).plan
    if open_store(plan).stat(plan) is None:  # one that stood still claimed what was being discarded, plan and all
        return []
    # a plan that was damaged would name others, which would stay when the claim goes: it is not loaded
    planned = planned_names(load_plan(plan))
    return [uri for uri in lying.there if name(uri) in planned]


def _remove_documents(lying: _Lying, whose: str | None) -> None:
    """But for those that go last. The certificate goes before what it speaks for."""
    target, places = lying.target, [certificate_place(lying.target)]
    if certificate := _those_there(places, target):
        _remove(certificate, target, whose)
    last = [uri for batch in lying.last for uri in batch]
    _remove([uri for uri in lying.documents if uri not in (*places, *last)], target, whose)


def _remove_files(target: str, files: Sequence[str], whose: str | None) -> None:
    for at in range(0, len(files), _AT_ONCE):
        _remove(files[at : at + _AT_ONCE], target, whose)


def _remove_what_goes_last(lying: _Lying, whose: str | None) -> None:
    for batch in lying.last:
        _remove(_those_there(batch, lying.target), lying.target, whose)


def _remove(uris: Sequence[str], target: str, whose: str | None) -> None:
    """Looks right before the request, after which nothing that was found out before it may be true any more."""
    _give_way_to_another(target, whose)
    open_store(target).delete(uris)


def _noted_plan(target: str) -> str | None:
    """The digest of the plan that is being discarded; None if nothing is, or nothing says of which plan."""
    note = discarding_place(target)
    found = _PLAN.search(read_document(note)) if is_being_discarded(target) else None
    return found[0].decode() if found else None


def _say_that_it_goes_on(places: Places) -> None:
    """On a full disk what nobody needs any more makes room for the note: what was staged, and pages about the run."""
    note = discarding_place(places.target)
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
            advice=f"see what that run does; if what it leaves is to go, too: rescale discard {quoted(target)}",
        )
    if digest is not None and not is_being_discarded(target):
        raise RequestError(
            "another discard of this target has come to its end meanwhile",
            path=target,
            advice=f"see what lies there now; if it is to go, too: rescale discard {quoted(target)}",
        )


def _delete_if_there(uris: Sequence[str], target: str) -> None:
    open_store(target).delete(_those_there(uris, target))


def _those_there(uris: Sequence[str], target: str) -> list[str]:
    """Who may delete only what he has put there is not asked for more."""
    return [uri for uri, pin in zip(uris, open_store(target).stats(uris), strict=True) if pin is not None]


def _remove_what_came(target: str, digest: str) -> list[str]:
    """Meanwhile, from a task that was thought lost, by the plan in its names; `RequestError` if there is no end to it.

    Claim and note stay then: nobody begins here as long as somebody writes.
    """
    store = open_store(target)
    removed: list[str] = []
    for _ in range(_LOOKS):
        came = [entry.uri for entry in store.list(target) if plan_in_name(name(entry.uri)) == digest[:8]]
        if not came:
            return removed
        _remove_files(target, came, digest)
        removed += came
    raise RequestError(
        "the run that is to be discarded goes on: it writes new files",
        path=target,
        found=f"{len(removed)} of them, which were removed, the last one {removed[-1]}",
        advice=f"end that run, then remove what it left: rescale discard {quoted(target)}",
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
