"""The protocol of a run on its target: the states of a target, and the transitions that each state allows.

Theory. The state of a target is not stored: it follows from which files exist in the target and beside it. A store puts
a file atomically, so a file exists whole or not at all. A step puts the file that leads to the next state last, when
all that the next state promises is done. Every function of this package that changes the state first reads it, and
refuses what it does not allow: `discard` by `refuse_unless_allowed`, all others by `permit`.

Crashes. A run may be killed between any two requests. It leaves the target in one of the states below, and nothing has
to be repaired. A later run of the same plan reads the state, keeps the files that exist, and writes the others.

    state       files that exist                  written by           meaning after a crash        may continue
    ----------  --------------------------------  -------------------  ---------------------------  -----------------
    FREE        nothing of ours, or plans, or     claim (the plan),    nothing was started          any plan; discard
                files that were copied ahead      prepare
    CLAIMED     a claim that names the plan       claim, if absent     files of state may exist,    the plan; discard
                                                                       each whole
    MOVED       the handles of all new streams    the moving steps,    all files of state were      the plan; discard
                                                  last of all          written
    CERTIFIED   a candidate for `_metadata`, and  validate, the        the candidate was compared   the plan; discard
                a certificate that names it       certificate last     with the source
    PUBLISHING  the same, and `publishing`        publish, before      `_metadata` may have         the plan; withdraw
                                                  `_metadata`          existed, and be deleted
    PUBLISHED   `_metadata`                       publish, if absent   the result is a checkpoint   readers; withdraw
    GONE        `published` and files of state,   publish, after       a job may own the files      withdraw
                without `_metadata`               `_metadata`
    EMPTIED     `published`, an empty target      as for GONE          no files are left            discard; withdraw
    TAKEN       a claim that names another plan,  a run of that plan   as above, for that plan      that plan; discard
                without `_metadata`
    OCCUPIED    `_metadata` without a claim that  another program, or  it is not a result of this   nobody
                names this plan                   another plan's run   plan

Why runs do not harm each other. A file of state appears whole, under a name that only its plan has, with bytes that
depend only on the plan. So two runs of one plan write the same bytes, even if tasks of a killed run are still active.
Runs of two plans never mix, because each must claim the target first. `discard` removes the claim after all files that
the claim covers, so an interrupted `discard` can be repeated.

Why there are two marks. A job that Flink starts in CLAIM mode owns the result. Once newer checkpoints have replaced it,
Flink deletes `_metadata`, and the other files that newer checkpoints do not refer to. The remaining files must not look
like a result that was never published. No store puts two objects at once, so one mark is put before `_metadata` and one
after it.

* `publishing` alone says that `_metadata` may have existed. In this state, only `withdraw` may delete anything in the
  target. A run of the plan may still publish, as long as all files are in their certified versions. Either the result
  was never published, or the run was killed between two requests and the job deleted `_metadata` before any run looked.
  In the second case, `_metadata` is put again with the same bytes.
* `published` says that `_metadata` existed. The publisher puts this mark, and so does every later run that finds
  `_metadata`. If the mark exists and `_metadata` does not, no run does anything in the target but `withdraw`. A
  publisher checks the mark right before it puts `_metadata`, because it may have been paused while its successor
  published.

Only a run that has started its old job again may withdraw its result. It has ended the job that it started from the
result before, so no job reads the result or owns it. `withdraw` puts the mark `published`, deletes `_metadata` and then
the files, as a job that owns the result would, and discards the rest.

Approval. A plan may need an approval. The question is put before it is shown to anybody, the decision when it is
answered; both are put if absent, and both have the plan's digest in their names. As long as there is a question and no
decision, no run of the plan moves, validates or publishes anything, even a run that needs no approval. After a
rejection, no run does so, and none starts, until `discard` has removed the claim and then question and decision. For a
published result, question and decision have no meaning.

Races of `publish` and `discard`. `publish` puts its mark, then looks for the note of `discard`; `discard` puts its
note, then looks for the mark. So at least one sees the other, and gives way before it has put `_metadata` or deleted a
file. A mark is removed by `discard`, when no file is left; or by the publisher that put it, if everything had been
discarded before. `discard` checks its note again before each request that deletes: if the note is gone, another discard
has finished, and the files may belong to a new run.

Followers and preparations. `follow` and `prepare` read checkpoints of a running job before a run claims the target: the
target is FREE meanwhile. The tables of their files are in `follower` and `preparation`. No run uses the target of a
follower, and no follower that of a run. If both begin at once, the run keeps the target, and the follower ends.

Limits. No store can check one file and change another in one request, so a process can be paused for any time between
its last check and the request that follows. Three things can go wrong. First, a publisher is paused; meanwhile another
run publishes, and a job that owns the result deletes its files. Then the paused publisher puts a `_metadata` whose
files are gone. Second, a paused `discard` deletes files of a new run of the same plan. Third, a paused publisher
publishes although meanwhile the question of an approval has been put.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum, auto
from typing import NamedTuple

from rescale.plan.plan import Plan
from rescale.runstate.decisions import approval_of
from rescale.runstate.documents import MOST_DOCUMENT_BYTES
from rescale.runstate.places import Places, claim_place, discarding_place, places_of
from rescale.runstate.target_safety import mark_documents, refuse_unsafe_target
from rescale.snapshot.reading.discovery import holds_snapshot
from rescale.storage.rereads import DOCUMENTS, read_again_on_failure
from rescale.storage.store import Store, exists, open_store
from rescale.text.advice import SAME_COMMAND, Advice, command
from rescale.text.errors import RequestError, StoreError
from rescale.text.names import quoted

_LISTING_COUNT = 2
"""Number of listings that must be empty before a directory counts as empty, because a listing may be outdated."""

_MOST_QUOTED_CHARACTERS = 500
"""Number of characters that an error quotes from a file that is not a claim; a claim is shorter."""

_PREPARE_ADVICE = "the run that has claimed it copies what is missing"

MOVING_STEPS = KEYED, OPERATOR = "keyed", "operator"
"""Names of the two moving steps, which are part of the names of the documents with their handles."""


class State(StrEnum):
    """State of a target for one plan, as in the table above."""

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


class Transition(StrEnum):
    """An action of a run, or of `discard`, that changes a target or the documents beside it."""

    PREPARE = auto()
    CLAIM = auto()
    ASK = auto()
    MOVE = auto()
    CERTIFY = auto()
    PUBLISH = auto()
    WITHDRAW = auto()
    DISCARD = auto()


TRANSITIONS: Mapping[State, Mapping[Transition, State]] = {
    State.FREE: {
        Transition.PREPARE: State.FREE,
        Transition.CLAIM: State.CLAIMED,
        Transition.DISCARD: State.FREE,
    },
    State.CLAIMED: {
        Transition.CLAIM: State.CLAIMED,
        Transition.ASK: State.CLAIMED,
        Transition.MOVE: State.MOVED,
        Transition.DISCARD: State.FREE,
    },
    State.MOVED: {
        Transition.CLAIM: State.MOVED,
        Transition.ASK: State.MOVED,
        Transition.MOVE: State.MOVED,
        Transition.CERTIFY: State.CERTIFIED,
        Transition.DISCARD: State.FREE,
    },
    State.CERTIFIED: {
        Transition.CLAIM: State.CERTIFIED,
        Transition.ASK: State.CERTIFIED,
        Transition.MOVE: State.CERTIFIED,
        Transition.CERTIFY: State.CERTIFIED,
        Transition.PUBLISH: State.PUBLISHED,
        Transition.DISCARD: State.FREE,
    },
    State.PUBLISHING: {
        Transition.CLAIM: State.PUBLISHING,
        Transition.ASK: State.PUBLISHING,
        Transition.MOVE: State.PUBLISHING,
        Transition.CERTIFY: State.PUBLISHING,
        Transition.PUBLISH: State.PUBLISHED,
        Transition.WITHDRAW: State.FREE,
    },
    State.PUBLISHED: dict.fromkeys(
        (Transition.CLAIM, Transition.ASK, Transition.MOVE, Transition.CERTIFY, Transition.PUBLISH), State.PUBLISHED
    )
    | {Transition.WITHDRAW: State.FREE},
    State.GONE: {Transition.WITHDRAW: State.FREE},
    State.EMPTIED: {Transition.WITHDRAW: State.FREE, Transition.DISCARD: State.FREE},
    State.TAKEN: {Transition.DISCARD: State.FREE},
    State.OCCUPIED: {},
}
"""The transitions that each state allows, and the state they lead to (`MOVE`: once both moving steps are done)."""

_STATE_CLAUSES = {
    State.FREE: "the target is not claimed",
    State.CLAIMED: "not all state has been moved",
    State.MOVED: "the result was not validated",
    State.CERTIFIED: "the result is validated, and not published yet",
    State.PUBLISHING: "the target was about to be published, and may have been published",
    State.PUBLISHED: "the target is published",
    State.GONE: "the target was published, and its `_metadata` is gone: a job that owns it may still use its files",
    State.EMPTIED: "the target was published, and all of its files are gone: only the documents beside it are left",
    State.TAKEN: "the target is claimed by another plan",
    State.OCCUPIED: "the target holds a snapshot of another plan or program",
}
_TRANSITION_RULES = {
    Transition.PREPARE: "files are copied ahead only into a target that no run has claimed",
    Transition.CLAIM: "a run needs a free target",
    Transition.ASK: "only a plan that has claimed its target can be approved",
    Transition.MOVE: "state is only moved into a target that the plan has claimed",
    Transition.CERTIFY: "only a complete result can be validated",
    Transition.PUBLISH: "only a validated result can be published",
    Transition.WITHDRAW: "only a result that was published can be withdrawn",
    Transition.DISCARD: "discard removes only what an unpublished run left",
}


def state_of(target: str, digest: str | None) -> State:
    """Return the state of a target for the plan with this digest."""
    return _state_under(target, digest, digest_of_claim(target))


def _state_under(target: str, digest: str | None, claiming_digest: str | None) -> State:
    """Return the state of a target for a plan; `claiming_digest` is the digest in the claim, None without a claim."""
    places, is_own = Places(target, ""), claiming_digest is not None and claiming_digest == digest
    if exists(places.metadata):
        return State.PUBLISHED if is_own else State.OCCUPIED
    if not is_own:
        return State.FREE if claiming_digest is None else State.TAKEN
    if exists(places.published):
        return State.GONE if any(open_store(target).list(target) for _ in range(_LISTING_COUNT)) else State.EMPTIED
    if exists(places.candidate) and exists(places.certificate):
        return State.PUBLISHING if exists(places.publishing) else State.CERTIFIED
    return State.MOVED if all(exists(places.written_handles(step)) for step in MOVING_STEPS) else State.CLAIMED


def permit(plan: Plan, transition: Transition) -> State:
    """Return the target's state. Raises `RequestError` if a run of the plan may not make the transition in this state.

    Raises `StoreError`, which is worth a retry, if a second read does not confirm the refusal.
    """
    refuse_unsafe_target(plan)
    state = read_again_on_failure(lambda: _permitted_state(plan, transition), DOCUMENTS)
    if transition is not Transition.CLAIM:
        mark_documents(plan.target)
    return state


def _permitted_state(plan: Plan, transition: Transition) -> State:
    claiming_digest = digest_of_claim(plan.target)
    state = _state_under(plan.target, plan.digest, claiming_digest)
    claim = claim_on(plan.target) if state in (State.TAKEN, State.OCCUPIED) else None
    if claim is not None and claim.plan_digest != claiming_digest:
        raise StoreError(
            "two reads of the claim differ", path=claim_place(plan.target), expected=claiming_digest, found=claim
        )
    refuse_unless_allowed(state, transition, plan.target, f"a claim by plan {plan.digest[:8]}", claim)
    if state is not State.PUBLISHED and transition is not Transition.ASK:
        _refuse_undecided(plan, transition)
    return state


def _refuse_undecided(plan: Plan, transition: Transition) -> None:
    """Raise `RequestError` if the plan was rejected, or waits for an answer and the transition is not the claim."""
    question, decision = approval_of(places_of(plan))
    if decision is not None and not decision.approved:
        raise RequestError(
            "the plan for this target was rejected",
            path=plan.target,
            expected="an approved plan, or a plan without a question",
            found=decision,
            advice=Advice("name another target, or remove the staged files: ", command("discard", quoted(plan.target))),
        )
    if question is not None and decision is None and transition is not Transition.CLAIM:
        raise RequestError(
            "the plan for this target waits for an approval",
            path=plan.target,
            expected="an answer to the question of the run that asks",
            found=question,
            advice=Advice(
                "wait for the answer; if that run has ended, remove what it left: ",
                command("discard", quoted(plan.target)),
            ),
        )


def refuse_unless_allowed(
    state: State, transition: Transition, target: str, expected: str | None = None, claim: Claim | None = None
) -> None:
    """Raise `RequestError` unless the state allows the transition; the error shows `expected` and `claim`."""
    if transition in TRANSITIONS[state]:
        return
    raise RequestError(
        f"{_STATE_CLAUSES[state]}, and {_TRANSITION_RULES[transition]}",
        path=target,
        expected=expected if state in (State.FREE, State.TAKEN) else None,
        found=claim,
        advice=_PREPARE_ADVICE
        if transition is Transition.PREPARE and state in (State.CLAIMED, State.MOVED, State.CERTIFIED)
        else _advice(state, target, claim),
    )


def refuse_missing_result(target: str) -> None:
    """Raise `RequestError` if there is no result at `target`: none at all, not yet, or not any more."""
    refuse_unpublished(target)
    if not exists(Places(target, "").metadata):
        raise RequestError(
            "there is no published result",
            path=target,
            expected="the target of a run that has published its result",
            found="no file _metadata in it, and no claim of a run beside it",
            advice="name the directory that the run reported as published",
        )


def refuse_unpublished(target: str) -> None:
    """Raise `RequestError` if the target's result is not published yet, or if its published `_metadata` is gone."""
    if exists(Places(target, "").metadata):
        return
    claiming_digest = digest_of_claim(target)
    state = None if claiming_digest is None else state_of(target, claiming_digest)
    if state in (State.GONE, State.EMPTIED):
        raise RequestError(_STATE_CLAUSES[state], path=target, advice=_advice(state, target))
    if state is not None:
        raise RequestError(
            "a run has claimed this target, and has not published its result",
            path=target,
            found=claim_on(target),
            advice="wait for that run; or if it was interrupted, repeat its command, which resumes it",
        )


class Claim(NamedTuple):
    """Claim on a target: the plan's digest, the run that made the claim (as keys and values), and the time.

    `is_last_round` says whether the run makes the last round of the target's follower. `source` is the plan's source.
    """

    plan_digest: str
    by: Mapping[str, str]
    at: str | None
    is_last_round: bool = False
    source: str | None = None

    def __str__(self) -> str:
        return ", ".join(
            [f"plan {self.plan_digest[:8]}", *(f"{k} {v}" for k, v in self.by.items()), *filter(None, [self.at])]
        )


def claim_on(target: str, store: Store | None = None) -> Claim | None:
    """Return the claim on the target; None without one. Raises `RequestError` if the claim's file is not a claim.

    `store` is used instead of this process's own store of the target.
    """
    uri = claim_place(target)
    store = store or open_store(uri)
    if store.stat(uri) is None:
        return None
    data = store.read_all(uri, MOST_DOCUMENT_BYTES)[0]
    try:
        document = json.loads(data)
        at, source = (None if (value := document.get(name)) is None else str(value) for name in ("at", "source"))
        by, is_last_round = dict(document.get("by", {})), bool(document.get("last_round", False))
        return Claim(str(document["plan"]), by, at, is_last_round, source)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise RequestError(
            "the file in the place of the claim is not a claim that Rescale wrote",
            path=uri,
            found=data[:_MOST_QUOTED_CHARACTERS].decode(errors="replace"),
            advice="name another target",
        ) from None


def digest_of_claim(target: str) -> str | None:
    """Return the digest of the plan that claims the target; None without a claim."""
    claim = claim_on(target)
    return None if claim is None else claim.plan_digest


def is_being_discarded(target: str) -> bool:
    """Return whether a `discard` of the target has begun and not ended."""
    return exists(discarding_place(target))


def _advice(state: State, target: str, claim: Claim | None = None) -> str:
    """Return advice for a target in this state; `claim` is the claim of another plan."""
    match state:
        case State.CLAIMED | State.MOVED:
            return Advice(SAME_COMMAND, ": it resumes")
        case State.PUBLISHING:
            return Advice(
                SAME_COMMAND,
                ": it publishes; or to remove it, if no job was started from it, delete the directory yourself",
            )
        case State.GONE:
            return "name another target; or if no job uses these files any more, delete the directory yourself"
        case State.EMPTIED:
            return Advice("remove these documents, or name another target: ", command("discard", quoted(target)))
        case State.PUBLISHED | State.OCCUPIED:
            return "to remove it, delete the directory yourself"
        case State.TAKEN if claim and Transition.DISCARD not in TRANSITIONS[state_of(target, claim.plan_digest)]:
            return "name another target"
        case State.TAKEN:
            # A request's source may be a directory of checkpoints. By now, another checkpoint may be its newest one.
            source = claim.source if claim and claim.source and holds_snapshot(claim.source) else None
            return Advice(
                *([f"to resume that run, use its source {source}, and its options; else "] if source else []),
                "name another target; if that run has ended, remove what it left: ",
                command("discard", quoted(target)),
            )
        case _:
            return Advice("name another target, or remove what that run left: ", command("discard", quoted(target)))
