"""What a target can be, and who may do what with it: the protocol of a run, as a table.

A target's state follows from what lies in and beside it, so whoever comes after a crash finds it out by looking;
nothing else remembers it. Every function of this package that writes asks `permit` first.

    state       what lies there                   written by           after a crash it means       who goes on
    ----------  --------------------------------  -------------------  ---------------------------  -----------------
    FREE        nothing of ours, or plans         claim (the plan)     nothing was begun            any plan
    CLAIMED     a claim that names the plan       claim, if absent     files of state may be        the plan; discard
                                                                       there, each whole
    MOVED       the handles of all new streams    the moving steps,    all files of state were      the plan; discard
                                                  last of all          written
    CERTIFIED   a candidate for `_metadata`, and  validate, the        the candidate was compared   the plan; discard
                a certificate that names it       certificate last     with the source
    PUBLISHING  the same, and `publishing`        publish, before      `_metadata` may have been    the plan
                                                  `_metadata`          there, and may have gone
    PUBLISHED   `_metadata`                       publish, if absent   the result is a checkpoint   who reads it
    GONE        `published` and files of state,   publish, after       a job may own the files      nobody
                without `_metadata`               `_metadata`
    EMPTIED     the same without any file         publish, likewise    nothing is left to be lost   discard
    TAKEN       a claim that names another plan   a run of that plan   as above, for that plan      that plan; discard
    OCCUPIED    `_metadata` without a claim       somebody else        it is not ours               nobody

A file of state appears whole, under a name that only its plan has, with bytes that depend on the plan alone. So two
runs of one plan, or a run and what a killed one left running, do each other no harm in any state; and runs of two plans
never mix, because both must claim. `discard` removes the claim after all that it speaks for, so it can be repeated.

A job that Flink starts in CLAIM mode owns the result: when newer checkpoints have taken its place Flink deletes
`_metadata`, and the other files as far as these do not refer to them. What is left then must not look as if it had
never been published. Only a mark of ours can tell, and no store puts two objects at once, so there are two marks: one
before `_metadata`, one after it.

* `publishing` alone says that nobody knows. So nothing may be deleted, or written anew, that lies there. The plan may
  publish: if it never was published, that is what the mark is for; and if it was, in the moment between two requests
  after which the run was killed, and nobody of ours has looked until the job's owner had deleted `_metadata`, then it
  stands there again as it was, over files which are all as they were certified, and no file is touched.
* `published` says that it was there. It is put by whoever published, and by every later run that finds `_metadata`.
  Without `_metadata` nothing here is done by anybody. It is looked for right before `_metadata` is put, for the sake of
  a publisher that stood still while its successor published: between that look and the put nothing else is asked, and
  what stands still just there, for as long as a job takes to own the result, is all that no mark can tell.

Only `discard` removes a mark, where no file is left, or the publication that has put it where it finds that all was
discarded before. `publish` puts its mark and looks for the note of `discard` then; `discard` puts its note and looks
for the mark then: whichever comes second gives way, before it has put `_metadata` or deleted a file. Before what was
staged goes, and right before each other request that deletes, it looks whether its note is still there: if not, another
one has come to the end, and what lies there may be a new run's. Between that look and the request nothing else is
asked, and that no look can close.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum, auto
from typing import NamedTuple

from rescale.errors import RequestError, StoreError
from rescale.names import quoted
from rescale.planning.values.plan import Plan
from rescale.storage.second_look import DOCUMENTS, looked_at_again
from rescale.storage.store import Store, open_store
from rescale.target.documents import DOCUMENT_LIMIT
from rescale.target.places import Places, claim_place, discarding_place

_LOOKS = 2
"""How often a directory is listed before it is taken for empty: a listing may be behind."""

_SHOWN = 500
"""Bytes of what is no claim of ours: more than one of ours has."""

STEPS = KEYED, OPERATOR = "keyed", "operator"
"""The moving steps, by what they call the handles that they write."""


class State(StrEnum):
    """Of a target, for one plan."""

    FREE = auto()
    CLAIMED = auto()
    MOVED = auto()
    CERTIFIED = auto()
    PUBLISHING = auto()
    PUBLISHED = auto()
    GONE = auto()
    EMPTIED = auto()
    TAKEN = auto()
    OCCUPIED = auto()


class Move(StrEnum):
    """What a run, or who removes what it left, does to a target."""

    CLAIM = auto()
    MOVE = auto()
    CERTIFY = auto()
    PUBLISH = auto()
    DISCARD = auto()


MOVES: Mapping[State, Mapping[Move, State]] = {
    State.FREE: {Move.CLAIM: State.CLAIMED, Move.DISCARD: State.FREE},
    State.CLAIMED: {Move.CLAIM: State.CLAIMED, Move.MOVE: State.MOVED, Move.DISCARD: State.FREE},
    State.MOVED: {
        Move.CLAIM: State.MOVED,
        Move.MOVE: State.MOVED,
        Move.CERTIFY: State.CERTIFIED,
        Move.DISCARD: State.FREE,
    },
    State.CERTIFIED: {
        Move.CLAIM: State.CERTIFIED,
        Move.MOVE: State.CERTIFIED,
        Move.CERTIFY: State.CERTIFIED,
        Move.PUBLISH: State.PUBLISHED,
        Move.DISCARD: State.FREE,
    },
    State.PUBLISHING: {
        Move.CLAIM: State.PUBLISHING,
        Move.MOVE: State.PUBLISHING,
        Move.CERTIFY: State.PUBLISHING,
        Move.PUBLISH: State.PUBLISHED,
    },
    State.PUBLISHED: dict.fromkeys((Move.CLAIM, Move.MOVE, Move.CERTIFY, Move.PUBLISH), State.PUBLISHED),
    State.GONE: {},
    State.EMPTIED: {Move.DISCARD: State.FREE},
    State.TAKEN: {Move.DISCARD: State.FREE},
    State.OCCUPIED: {},
}
"""What may be done in a state, and the state that it leads to (`MOVE`: when both moving steps have done it)."""

_BECAUSE = {
    State.FREE: "the target is not claimed",
    State.CLAIMED: "not all state has been moved",
    State.MOVED: "the result was not validated",
    State.PUBLISHING: "the target was about to be published, and may have been",
    State.PUBLISHED: "the target is published",
    State.GONE: "the target was published, and its `_metadata` is gone: a job that claimed it may still use its files",
    State.EMPTIED: "the target was published, and all of it is gone: only what was noted beside it is left",
    State.TAKEN: "the target is claimed by another plan",
    State.OCCUPIED: "the target holds a snapshot that is not ours",
}
_WANTS = {
    Move.CLAIM: "a run begins in a free target",
    Move.MOVE: "state is moved into a target that its plan has claimed",
    Move.CERTIFY: "what is validated is a whole result",
    Move.PUBLISH: "only what was validated is published",
    Move.DISCARD: "discard only removes what an unpublished run left",
}


def state_of(target: str, digest: str | None) -> State:
    """The state of a target for the plan with this digest."""
    return _state_under(target, digest, claimed_by(target))


def _state_under(target: str, digest: str | None, holder: str | None) -> State:
    """The same, where the digest of the plan that claims the target has been read already."""
    places, store = Places(target, ""), open_store(target)

    def is_there(place: str) -> bool:
        return store.stat(place) is not None

    ours = holder is not None and holder == digest
    if is_there(places.metadata):
        return State.PUBLISHED if ours else State.OCCUPIED
    if not ours:
        return State.FREE if holder is None else State.TAKEN
    if is_there(places.published):
        return State.GONE if any(store.list(target) for _ in range(_LOOKS)) else State.EMPTIED
    if is_there(places.candidate) and is_there(places.certificate):
        return State.PUBLISHING if is_there(places.publishing) else State.CERTIFIED
    return State.MOVED if all(is_there(places.written_handles(step)) for step in STEPS) else State.CLAIMED


def permit(plan: Plan, move: Move) -> State:
    """The target's state, if a run of the plan may do that in it; else `RequestError` says what stands against it.

    What does so only at the first look is no reason to end a run for good: `StoreError`.
    """
    return looked_at_again(lambda: _permitted(plan, move), DOCUMENTS)


def _permitted(plan: Plan, move: Move) -> State:
    read = claimed_by(plan.target)
    state = _state_under(plan.target, plan.digest, read)
    holder = claim_on(plan.target) if state is State.TAKEN else None
    if holder is not None and holder.plan != read:
        raise StoreError("the claim did not read the same twice", path=claim_place(plan.target), found=holder)
    refuse_unless(state, move, plan.target, f"a claim by plan {plan.digest[:8]}", holder)
    return state


def refuse_unless(
    state: State, move: Move, target: str, expected: str | None = None, holder: Claim | None = None
) -> None:
    """`RequestError` unless the table has the move; `expected` is what a claim would say, `holder` the one there."""
    if move in MOVES[state]:
        return
    raise RequestError(
        f"{_BECAUSE[state]}, and {_WANTS[move]}",
        path=target,
        expected=expected if state in (State.FREE, State.TAKEN) else None,
        found=holder,
        advice=_advice(state, target, None if holder is None else state_of(target, holder.plan)),
    )


def refuse_unpublished(target: str) -> None:
    """`RequestError` if the target's `_metadata` is gone after it was published, or a run has still to put it."""
    metadata = Places(target, "").metadata
    if open_store(metadata).stat(metadata) is not None:
        return
    holder = claimed_by(target)
    state = None if holder is None else state_of(target, holder)
    if state in (State.GONE, State.EMPTIED):
        raise RequestError(_BECAUSE[state], path=target, advice=_advice(state, target, None))
    if state is not None:
        raise RequestError(
            "a run has begun here, and has not published its result",
            path=target,
            found=claim_on(target),
            advice="wait for that run; or if it was interrupted, give its command again: it resumes",
        )


class Claim(NamedTuple):
    """The digest of the plan that claims a target, and the run that did it for the plan, as far as it said."""

    plan: str
    by: Mapping[str, str]
    at: str | None

    def __str__(self) -> str:
        return ", ".join([f"plan {self.plan[:8]}", *(f"{k} {v}" for k, v in self.by.items()), *filter(None, [self.at])])


def claim_on(target: str, store: Store | None = None) -> Claim | None:
    """What claims the target; `RequestError` if it is no claim of ours.

    `store` is the one to look in where that is not this process's own.
    """
    uri = claim_place(target)
    store = store or open_store(uri)
    if store.stat(uri) is None:
        return None
    data = store.read_all(uri, DOCUMENT_LIMIT)[0]
    try:
        document = json.loads(data)
        at = document.get("at")
        return Claim(str(document["plan"]), dict(document.get("by", {})), None if at is None else str(at))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise RequestError(
            "there is a claim on the target that is not one of ours",
            path=uri,
            found=data[:_SHOWN].decode(errors="replace"),
            advice="name another target",
        ) from None


def claimed_by(target: str) -> str | None:
    """The digest of the plan that claims the target; None without a claim."""
    claim = claim_on(target)
    return None if claim is None else claim.plan


def is_being_discarded(target: str) -> bool:
    """Whether `discard` is at work, or was begun and not ended."""
    uri = discarding_place(target)
    return open_store(uri).stat(uri) is not None


def _advice(state: State, target: str, holders: State | None) -> str:
    """`holders` is the state for who has claimed the target, where that is another plan."""
    match state:
        case State.CLAIMED | State.MOVED:
            return "run the same command again: it resumes"
        case State.PUBLISHING:
            return (
                "run the same command again: it publishes; or if you want it gone, and no job was started from it, "
                "delete the directory yourself"
            )
        case State.GONE:
            return "name another target; or if no job uses these files any more, delete the directory yourself"
        case State.EMPTIED:
            return f"remove what was noted, or name another target: rescale discard {quoted(target)}"
        case State.PUBLISHED | State.OCCUPIED:
            return "if you want it gone, delete the directory yourself"
        case State.TAKEN if holders is not None and Move.DISCARD not in MOVES[holders]:
            return "name another target"
        case State.TAKEN:
            return f"name another target; if that run is over, remove what it left: rescale discard {quoted(target)}"
        case _:
            return f"name another target, or remove what that run left: rescale discard {quoted(target)}"
