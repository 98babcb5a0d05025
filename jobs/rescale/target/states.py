"""What a target can be, and who may do what with it: the protocol of a run, as a table.

A target's state follows from what lies in and beside it, so whoever comes after a crash finds it out by looking;
nothing else remembers it. Every function of this package that writes asks `permit` first.

    state      what lies there                   written by           after a crash it means       who goes on
    ---------  --------------------------------  -------------------  ---------------------------  -----------------
    FREE       nothing of ours, or plans         claim (the plan)     nothing was begun            any plan
    CLAIMED    a claim that names the plan       claim, if absent     files of state may be        the plan; discard
                                                                      there, each whole
    MOVED      the handles of all new streams    the moving steps,    all files of state were      the plan; discard
                                                 last of all          written
    CERTIFIED  a candidate for `_metadata`, and  validate, the        the candidate was compared   the plan; discard
               a certificate that names it       certificate last     with the source
    PUBLISHED  `_metadata`                       publish, if absent   the result is a checkpoint   who reads it
    TAKEN      a claim that names another plan   a run of that plan   as above, for that plan      that plan; discard
    OCCUPIED   `_metadata` without a claim       somebody else        it is not ours               nobody

A file of state appears whole, under a name that only its plan has, with bytes that depend on the plan alone. So two
runs of one plan, or a run and what a killed one left running, do each other no harm in any state; and runs of two plans
never mix, because both must claim. `discard` removes the claim after all that it speaks for, so it can be repeated; it
says first that it is at work, and looks for `_metadata` then, as publish puts that first and looks for `discard` then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum, auto
from typing import NamedTuple

from rescale.errors import RequestError
from rescale.planning.plan import Plan
from rescale.storage.store import Store, open_store
from rescale.target.documents import DOCUMENT_LIMIT
from rescale.target.places import Places, claim_place, discarding_place

STEPS = KEYED, OPERATOR = "keyed", "operator"
"""The moving steps, by what they call the handles that they write."""


class State(StrEnum):
    """Of a target, for one plan."""

    FREE = auto()
    CLAIMED = auto()
    MOVED = auto()
    CERTIFIED = auto()
    PUBLISHED = auto()
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
    State.PUBLISHED: dict.fromkeys((Move.CLAIM, Move.MOVE, Move.CERTIFY, Move.PUBLISH), State.PUBLISHED),
    State.TAKEN: {Move.DISCARD: State.FREE},
    State.OCCUPIED: {},
}
"""What may be done in a state, and the state that it leads to (`MOVE`: when both moving steps have done it)."""

_BECAUSE = {
    State.FREE: "the target is not claimed",
    State.CLAIMED: "not all state has been moved",
    State.MOVED: "the result was not validated",
    State.PUBLISHED: "the target is published",
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
    places, store = Places(target, digest or ""), open_store(target)
    holder = claimed_by(target)
    published = store.stat(places.metadata) is not None
    if holder is None or holder != digest:
        return State.OCCUPIED if published else State.FREE if holder is None else State.TAKEN
    if published:
        return State.PUBLISHED
    if all(store.stat(place) is not None for place in (places.candidate, places.certificate)):
        return State.CERTIFIED
    moved = all(store.stat(places.written_handles(step)) is not None for step in STEPS)
    return State.MOVED if moved else State.CLAIMED


def permit(plan: Plan, move: Move) -> State:
    """The target's state, if a run of the plan may do that in it; else `RequestError` says what stands against it."""
    state = state_of(plan.target, plan.digest)
    refuse_unless(state, move, plan.target, expected=f"a claim by plan {plan.digest[:8]}")
    return state


def refuse_unless(state: State, move: Move, target: str, expected: str | None = None) -> None:
    """`RequestError` unless the table has the move; `expected` is what a claim would say."""
    if move in MOVES[state]:
        return
    holder = claim_on(target) if state is State.TAKEN else None
    raise RequestError(
        f"{_BECAUSE[state]}, and {_WANTS[move]}",
        path=target,
        expected=expected if state in (State.FREE, State.TAKEN) else None,
        found=holder,
        advice=_advice(state, target),
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
    try:
        document = json.loads(store.read_all(uri, DOCUMENT_LIMIT)[0])
        return Claim(str(document["plan"]), dict(document.get("by", {})), document.get("at"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise RequestError(
            "there is a claim on the target that is not one of ours", path=uri, advice="name another target"
        ) from None


def claimed_by(target: str) -> str | None:
    """The digest of the plan that claims the target; None without a claim."""
    claim = claim_on(target)
    return None if claim is None else claim.plan


def is_being_discarded(target: str) -> bool:
    """Whether `discard` is at work, or was begun and not ended."""
    uri = discarding_place(target)
    return open_store(uri).stat(uri) is not None


def _advice(state: State, target: str) -> str:
    match state:
        case State.CLAIMED | State.MOVED:
            return "run the same command again: it resumes"
        case State.PUBLISHED | State.OCCUPIED:
            return "if you want it gone, delete the directory yourself"
        case State.TAKEN:
            return f"name another target; if that run is over, remove what it left: rescale discard {target}"
        case _:
            return f"name another target, or remove what that run left: rescale discard {target}"
