"""Approval of a plan: no step runs before the question is answered, and the first answer is final."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rescale.execution.steps import redistribute_operator_state, reshuffle_keyed_state, validate_coverage
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.plan.plan import Plan
from rescale.runstate.approval import ask, decide
from rescale.runstate.claim import claim
from rescale.runstate.decisions import Approval, approval_of
from rescale.runstate.places import places_of
from rescale.runstate.publication import publish
from rescale.runstate.removal import discard
from rescale.runstate.states import State, Transition, permit, state_of
from rescale.storage.store import open_store
from rescale.text.errors import RequestError
from support.pipeline import certify, execute_without_spark

ASKING_RUN, OTHER_RUN = {"run": "asking"}, {"run": "other"}

STEPS: dict[str, Callable[[Plan], object]] = {
    "reshuffle": lambda plan: reshuffle_keyed_state(plan, InProcessTasks()),
    "redistribute": lambda plan: redistribute_operator_state(plan, InProcessTasks()),
    "validate": lambda plan: validate_coverage(plan, InProcessTasks()),
    "publish": publish,
}


@pytest.mark.parametrize("step", STEPS)
def test_every_step_of_a_plan_is_refused_until_its_question_is_answered(step: str, plan: Plan) -> None:
    """This holds for a run that began before the question was asked, too."""
    certify(plan)
    ask(plan, ASKING_RUN)
    claim(plan)
    with pytest.raises(RequestError) as caught:
        STEPS[step](plan)
    assert caught.value.path == plan.target
    assert "run asking" in str(caught.value.found)
    assert caught.value.advice
    decide(plan, ASKING_RUN, "approved by ada", is_approved=True)
    STEPS[step](plan)


@pytest.mark.parametrize("step", [*STEPS, "claim"])
def test_rejected_plan_is_refused_in_every_step_until_its_target_is_discarded(step: str, plan: Plan) -> None:
    steps = {**STEPS, "claim": claim}
    certify(plan)
    decide(plan, ASKING_RUN, "rejected by ada", is_approved=False)
    with pytest.raises(RequestError) as caught:
        steps[step](plan)
    assert "rejected by ada" in str(caught.value.found)
    assert state_of(plan.target, plan.digest) is State.CERTIFIED
    discard(plan.target)
    execute_without_spark(plan)
    assert state_of(plan.target, plan.digest) is State.PUBLISHED


@pytest.mark.parametrize("accept_unconditional", [False, True])
def test_second_answer_to_a_question_does_not_replace_the_first(accept_unconditional: bool, plan: Plan) -> None:
    claim(plan)
    first_decision = decide(
        plan, ASKING_RUN, "rejected by ada", is_approved=False, accept_unconditional=accept_unconditional
    )
    assert (
        decide(plan, OTHER_RUN, "approved by bob", is_approved=True, accept_unconditional=accept_unconditional)
        == first_decision
    )
    assert (first_decision.approved, first_decision.answer, first_decision.by) == (False, "rejected by ada", ASKING_RUN)


@pytest.mark.parametrize("accept_unconditional", [False, True])
def test_question_names_the_first_run_that_asked_it(accept_unconditional: bool, plan: Plan) -> None:
    claim(plan)
    first_question = ask(plan, ASKING_RUN, accept_unconditional=accept_unconditional)
    assert ask(plan, OTHER_RUN, accept_unconditional=accept_unconditional) == first_question
    assert first_question.by == ASKING_RUN


def test_published_result_stays_published_when_its_plan_is_rejected_later(plan: Plan) -> None:
    """A run may publish while another run asks its question. The published result is reported, and not taken back."""
    execute_without_spark(plan)
    ask(plan, ASKING_RUN)
    decide(plan, ASKING_RUN, "rejected by ada", is_approved=False)
    assert publish(plan).was_already_published
    with pytest.raises(RequestError) as caught:
        discard(plan.target)
    assert caught.value.path == plan.target


def test_discard_removes_question_and_decision(plan: Plan) -> None:
    claim(plan)
    ask(plan, ASKING_RUN)
    decide(plan, ASKING_RUN, "approved by ada", is_approved=True)
    discard(plan.target)
    assert approval_of(places_of(plan)) == Approval(None, None)
    assert open_store(plan.target).list(f"{plan.target}.rescale") == []


def test_killed_discard_removes_the_claim_before_the_question(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    claim(plan)
    ask(plan, ASKING_RUN)
    store, kept_uris = open_store(plan.target), {places_of(plan).question, places_of(plan).claim}
    delete = store.delete

    def delete_or_be_killed(uris: list[str]) -> None:
        if places_of(plan).question in uris:
            raise KeyboardInterrupt
        delete(uris)
        kept_uris.difference_update(uris)

    monkeypatch.setattr(store, "delete", delete_or_be_killed)
    with pytest.raises(KeyboardInterrupt):
        discard(plan.target)
    assert kept_uris == {places_of(plan).question}


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"approved": "yes"}'])
@pytest.mark.parametrize("document", ["question", "decision"])
def test_question_or_decision_with_unknown_content_is_refused(document: str, content: bytes, plan: Plan) -> None:
    claim(plan)
    uri = getattr(places_of(plan), document)
    open_store(uri).put(uri, content)
    with pytest.raises(RequestError) as caught:
        permit(plan, Transition.MOVE)
    assert caught.value.path == uri
    assert Path(uri).name.startswith(("question-", "approval-"))
