"""The table of states holds for the functions that change a target: each does what the table says, or refuses."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import pytest

from rescale.execution.steps import redistribute_operator_state, reshuffle_keyed_state, validate_coverage
from rescale.execution.tasks.in_process import Loop
from rescale.plan.plan import Plan
from rescale.runstate import states
from rescale.runstate.approval import ask
from rescale.runstate.claim import claim
from rescale.runstate.places import places_of
from rescale.runstate.publication import is_published, publish
from rescale.runstate.removal import discard
from rescale.runstate.states import TRANSITIONS, Claim, State, Transition, permit, refuse_unpublished, state_of
from rescale.storage.store import open_store
from rescale.text.errors import RequestError, StoreError
from support import snapshots
from support.pipeline import plan_rescale

SOURCE = snapshots.directory("2-finished")


def move(plan: Plan) -> None:
    for step in (reshuffle_keyed_state, redistribute_operator_state):
        step(plan, Loop())


DONE_BY: dict[Transition, Callable[[Plan], object]] = {
    Transition.PREPARE: lambda plan: permit(plan, Transition.PREPARE),
    Transition.CLAIM: claim,
    Transition.ASK: lambda plan: ask(plan, {"run": "a-run"}),
    Transition.MOVE: move,
    Transition.CERTIFY: lambda plan: validate_coverage(plan, Loop()),
    Transition.PUBLISH: publish,
    Transition.DISCARD: lambda plan: discard(plan.target),
}
WAY = (Transition.CLAIM, Transition.MOVE, Transition.CERTIFY, Transition.PUBLISH)
"""From a free target to a published one."""
ON_THE_WAY = (State.FREE, State.CLAIMED, State.MOVED, State.CERTIFIED, State.PUBLISHED)
WAS_PUBLISHED = (State.GONE, State.EMPTIED)


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Return a plan with a result of files, which are not inlined however small they are."""
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    return plan_rescale(SOURCE, str(tmp_path / "target"), ["3"])


def bring(plan: Plan, state: State) -> None:
    if state is State.TAKEN:
        claim(plan_rescale(SOURCE, plan.target, ["2"]))
    elif state is State.OCCUPIED:
        open_store(plan.target).put(places_of(plan).metadata, b"somebody's")
    elif state is State.PUBLISHING:
        bring(plan, State.CERTIFIED)
        open_store(plan.target).put(places_of(plan).publishing, b"")
    elif state in WAS_PUBLISHED:
        bring(plan, State.PUBLISHED)
        files = [entry.uri for entry in open_store(plan.target).list(plan.target)]
        open_store(plan.target).delete(files if state is State.EMPTIED else [places_of(plan).metadata])
    else:
        for done in WAY[: ON_THE_WAY.index(state)]:
            DONE_BY[done](plan)


@pytest.mark.parametrize("transition", Transition)
@pytest.mark.parametrize("state", State)
def test_every_transition_leads_where_the_table_says_or_is_refused(
    state: State, transition: Transition, plan: Plan
) -> None:
    bring(plan, state)
    assert state_of(plan.target, plan.digest) is state
    if transition in TRANSITIONS[state]:
        DONE_BY[transition](plan)
        assert state_of(plan.target, plan.digest) is TRANSITIONS[state][transition]
        return
    before = open_store(plan.target).list(str(Path(plan.target).parent))
    with pytest.raises(RequestError) as refused:
        DONE_BY[transition](plan)
    assert refused.value.path == plan.target
    assert refused.value.advice
    assert open_store(plan.target).list(str(Path(plan.target).parent)) == before
    assert state_of(plan.target, plan.digest) is state


def test_a_moving_step_alone_is_not_the_whole_move(plan: Plan) -> None:
    claim(plan)
    reshuffle_keyed_state(plan, Loop())
    assert state_of(plan.target, plan.digest) is State.CLAIMED


@pytest.mark.parametrize("state", [State.CLAIMED, State.CERTIFIED, State.PUBLISHING, State.GONE])
def test_what_is_not_published_yet_is_not_taken_for_no_snapshot(state: State, plan: Plan) -> None:
    bring(plan, state)
    with pytest.raises(RequestError) as refused:
        refuse_unpublished(plan.target)
    assert ("has not published" in refused.value.what) is (state is not State.GONE)
    assert refused.value.advice


def test_what_is_published_or_nobodys_is_not_refused(plan: Plan) -> None:
    refuse_unpublished(plan.target)
    bring(plan, State.PUBLISHED)
    refuse_unpublished(plan.target)


def test_another_metadata_under_our_claim_is_not_our_result(plan: Plan) -> None:
    bring(plan, State.CERTIFIED)
    open_store(plan.target).put(places_of(plan).metadata, b"somebody's")
    assert not is_published(plan)
    with pytest.raises(RequestError, match="another published result"):
        publish(plan)


def test_only_of_a_target_that_is_taken_it_is_said_by_whom(plan: Plan) -> None:
    bring(plan, State.PUBLISHED)
    with pytest.raises(RequestError) as refused:
        permit(plan, Transition.DISCARD)
    assert refused.value.found is None


@pytest.mark.parametrize("second", ["the plan's", "a third one"])
def test_a_claim_that_reads_otherwise_at_a_second_look_is_looked_at_again(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, second: str
) -> None:
    """Though both looks begin with the plan's digits, of which an error tells no more."""
    claim(plan)
    misread = [plan.digest[:-1] + digit for digit in "0123456789abcdef" if not plan.digest.endswith(digit)]
    readings = cycle([misread[0], plan.digest if second == "the plan's" else misread[1]])
    monkeypatch.setattr(states, "claim_on", lambda _: Claim(next(readings), {}, None))
    with pytest.raises(StoreError, match="did not read the same twice"):
        permit(plan, Transition.MOVE)


@pytest.mark.parametrize("left", ["candidate", "certificate"])
def test_a_candidate_and_its_certificate_count_together(left: str, plan: Plan) -> None:
    bring(plan, State.CERTIFIED)
    both = {"candidate": places_of(plan).candidate, "certificate": places_of(plan).certificate}
    open_store(plan.target).delete([place for which, place in both.items() if which != left])
    assert state_of(plan.target, plan.digest) is State.MOVED
