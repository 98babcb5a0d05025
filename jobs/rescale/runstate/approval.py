"""Writes the question about a plan and the decision on it (`decisions`); `states` says what they allow.

A run writes the question before it asks anybody. The first answer is the decision; later answers change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from rescale.plan.plan import Plan
from rescale.runstate.decisions import D, Decision, Question, approval_of, cut_over_decision
from rescale.runstate.places import cut_over_place, places_of
from rescale.runstate.states import Transition, permit
from rescale.storage.store import open_store
from rescale.text.errors import StoreError


def ask(plan: Plan, run_identity: Mapping[str, str], *, accept_unconditional: bool = False) -> Question:
    """Write the question whether the plan may be carried out, if absent; return the stored question.

    `run_identity` names the run that asks. Raises `RequestError` if the plan has not claimed its target.
    """
    permit(plan, Transition.ASK)
    question = msgspec.json.encode(Question(run_identity, _time_now()))
    _put_if_absent(places_of(plan).question, question, accept_unconditional=accept_unconditional)
    return _existing_document(approval_of(places_of(plan)).question, places_of(plan).question)


def decide(
    plan: Plan, run_identity: Mapping[str, str], answer: str, *, is_approved: bool, accept_unconditional: bool = False
) -> Decision:
    """Write the decision on the plan, if absent; return the stored decision, which may be another run's.

    `run_identity` names the run that got the `answer`. Raises `RequestError` if the plan has not claimed its target.
    """
    permit(plan, Transition.ASK)
    decision = msgspec.json.encode(Decision(is_approved, answer, run_identity, _time_now()))
    _put_if_absent(places_of(plan).decision, decision, accept_unconditional=accept_unconditional)
    return _existing_document(approval_of(places_of(plan)).decision, places_of(plan).decision)


def decide_cut_over(
    target: str, run_identity: Mapping[str, str], answer: str, *, is_approved: bool, accept_unconditional: bool = False
) -> Decision:
    """Write the decision on the cut-over to a followed target, if absent; return the stored decision."""
    uri = cut_over_place(target)
    decision = msgspec.json.encode(Decision(is_approved, answer, run_identity, _time_now()))
    _put_if_absent(uri, decision, accept_unconditional=accept_unconditional)
    return _existing_document(cut_over_decision(target), uri)


def _put_if_absent(uri: str, document: bytes, *, accept_unconditional: bool) -> None:
    store = open_store(uri)
    if not accept_unconditional:
        store.put_if_absent(uri, document)
    elif store.stat(uri) is None:
        store.put(uri, document)


def _existing_document(document: D | None, uri: str) -> D:
    if document is None:
        raise StoreError(
            "a document that this run has just written is gone: the target was discarded meanwhile", path=uri
        )
    return document


def _time_now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
