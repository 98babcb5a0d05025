"""The functions that change a target follow the table of states: each leads to the state in the table, or refuses."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import pytest

from rescale.execution.steps import redistribute_operator_state, reshuffle_keyed_state, validate_coverage
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.plan.plan import Plan
from rescale.runstate import states
from rescale.runstate.approval import ask
from rescale.runstate.claim import claim
from rescale.runstate.places import places_of
from rescale.runstate.publication import is_published, publish, withdraw
from rescale.runstate.removal import discard
from rescale.runstate.states import (
    TRANSITIONS,
    Claim,
    State,
    Transition,
    permit,
    refuse_missing_result,
    refuse_unpublished,
    state_of,
)
from rescale.storage.store import open_store
from rescale.text.errors import RequestError, StoreError
from support import snapshots
from support.pipeline import plan_rescale

SOURCE = snapshots.directory("2-finished")


def move(plan: Plan) -> None:
    for step in (reshuffle_keyed_state, redistribute_operator_state):
        step(plan, InProcessTasks())


ACTIONS: dict[Transition, Callable[[Plan], object]] = {
    Transition.PREPARE: lambda plan: permit(plan, Transition.PREPARE),
    Transition.CLAIM: claim,
    Transition.ASK: lambda plan: ask(plan, {"run": "a-run"}),
    Transition.MOVE: move,
    Transition.CERTIFY: lambda plan: validate_coverage(plan, InProcessTasks()),
    Transition.PUBLISH: publish,
    Transition.WITHDRAW: withdraw,
    Transition.DISCARD: lambda plan: discard(plan.target),
}
PUBLISHING_TRANSITIONS = (Transition.CLAIM, Transition.MOVE, Transition.CERTIFY, Transition.PUBLISH)
"""The transitions from a free target to a published one."""
PUBLISHING_STATES = (State.FREE, State.CLAIMED, State.MOVED, State.CERTIFIED, State.PUBLISHED)
VANISHED_STATES = (State.GONE, State.EMPTIED)


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Return a plan with a result of files, which are not inlined however small they are."""
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    return plan_rescale(SOURCE, str(tmp_path / "target"), ["3"])


def bring_to(plan: Plan, state: State) -> None:
    if state is State.TAKEN:
        claim(plan_rescale(SOURCE, plan.target, ["2"]))
    elif state is State.OCCUPIED:
        open_store(plan.target).put(places_of(plan).metadata, b"somebody's")
    elif state is State.PUBLISHING:
        bring_to(plan, State.CERTIFIED)
        open_store(plan.target).put(places_of(plan).publishing, b"")
    elif state in VANISHED_STATES:
        bring_to(plan, State.PUBLISHED)
        files = [entry.uri for entry in open_store(plan.target).list(plan.target)]
        open_store(plan.target).delete(files if state is State.EMPTIED else [places_of(plan).metadata])
    else:
        for transition in PUBLISHING_TRANSITIONS[: PUBLISHING_STATES.index(state)]:
            ACTIONS[transition](plan)


@pytest.mark.parametrize("transition", Transition)
@pytest.mark.parametrize("state", State)
def test_every_transition_leads_to_the_state_in_the_table_or_is_refused(
    state: State, transition: Transition, plan: Plan
) -> None:
    bring_to(plan, state)
    assert state_of(plan.target, plan.digest) is state
    if transition in TRANSITIONS[state]:
        ACTIONS[transition](plan)
        assert state_of(plan.target, plan.digest) is TRANSITIONS[state][transition]
        return
    before = open_store(plan.target).list(str(Path(plan.target).parent))
    with pytest.raises(RequestError) as caught:
        ACTIONS[transition](plan)
    assert caught.value.path == plan.target
    assert caught.value.advice
    assert open_store(plan.target).list(str(Path(plan.target).parent)) == before
    assert state_of(plan.target, plan.digest) is state


def test_target_is_still_claimed_after_one_of_two_moving_steps(plan: Plan) -> None:
    claim(plan)
    reshuffle_keyed_state(plan, InProcessTasks())
    assert state_of(plan.target, plan.digest) is State.CLAIMED


@pytest.mark.parametrize("state", [State.CLAIMED, State.CERTIFIED, State.PUBLISHING, State.GONE])
def test_unpublished_or_vanished_target_is_refused_as_a_source(state: State, plan: Plan) -> None:
    bring_to(plan, state)
    with pytest.raises(RequestError) as caught:
        refuse_unpublished(plan.target)
    assert ("has not published" in caught.value.what) is (state is not State.GONE)
    assert caught.value.advice


def test_published_or_free_target_is_not_refused_as_a_source(plan: Plan) -> None:
    refuse_unpublished(plan.target)
    bring_to(plan, State.PUBLISHED)
    refuse_unpublished(plan.target)


def test_result_that_is_missing_is_refused(plan: Plan) -> None:
    with pytest.raises(RequestError, match="no published result") as caught:
        refuse_missing_result(plan.target)
    assert caught.value.expected == "the target of a run that has published its result"
    bring_to(plan, State.CERTIFIED)
    with pytest.raises(RequestError, match="has not published"):
        refuse_missing_result(plan.target)
    bring_to(plan, State.PUBLISHED)
    refuse_missing_result(plan.target)


def test_publish_is_refused_where_other_metadata_lies_under_the_claim(plan: Plan) -> None:
    bring_to(plan, State.CERTIFIED)
    open_store(plan.target).put(places_of(plan).metadata, b"somebody's")
    assert not is_published(plan)
    with pytest.raises(RequestError, match="another published result"):
        publish(plan)


def test_refusal_for_a_published_target_of_the_same_plan_names_no_claim(plan: Plan) -> None:
    bring_to(plan, State.PUBLISHED)
    with pytest.raises(RequestError) as caught:
        permit(plan, Transition.DISCARD)
    assert caught.value.found is None


@pytest.mark.parametrize("second_reading", ["the plan's", "a third one"])
def test_claim_that_reads_differently_each_time_is_a_store_error(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, second_reading: str
) -> None:
    """Both readings may begin with the same eight digits, which are all that an error shows of a claim."""
    claim(plan)
    misread_digests = [plan.digest[:-1] + digit for digit in "0123456789abcdef" if not plan.digest.endswith(digit)]
    readings = cycle([misread_digests[0], plan.digest if second_reading == "the plan's" else misread_digests[1]])
    monkeypatch.setattr(states, "claim_on", lambda _: Claim(next(readings), {}, None))
    with pytest.raises(StoreError, match="two reads of the"):
        permit(plan, Transition.MOVE)


@pytest.mark.parametrize("kept_document", ["candidate", "certificate"])
def test_target_with_only_candidate_or_only_certificate_counts_as_moved(kept_document: str, plan: Plan) -> None:
    bring_to(plan, State.CERTIFIED)
    uri_by_document = {"candidate": places_of(plan).candidate, "certificate": places_of(plan).certificate}
    open_store(plan.target).delete([uri for document, uri in uri_by_document.items() if document != kept_document])
    assert state_of(plan.target, plan.digest) is State.MOVED
