"""The question whether a plan may be carried out, and the one decision on it: documents beside the target.

Both are written only if absent, so a target has one decision for each plan, however many runs ask. A plan without a
question needs no decision. `states` says what is allowed before and after a decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from rescale.runstate.documents import read_json
from rescale.runstate.places import Places, cut_over_place
from rescale.storage.store import exists, open_store


@dataclass(frozen=True)
class Question:
    """Question whether a plan may be carried out: the run that asks (as keys and values), and the time."""

    by: Mapping[str, str]
    at: str

    def __str__(self) -> str:
        return ", ".join([*(f"{key} {value}" for key, value in self.by.items()), self.at])


@dataclass(frozen=True)
class Decision:
    """Decision on a plan: whether it is approved, the answer as a clause, the run that got the answer, and the time."""

    approved: bool
    answer: str
    by: Mapping[str, str]
    at: str

    def __str__(self) -> str:
        return ", ".join([self.answer, *(f"{key} {value}" for key, value in self.by.items()), self.at])


D = TypeVar("D", Question, Decision)


class Approval(NamedTuple):
    """The question about a plan, None if no run has asked; and the decision, None if nobody has answered."""

    question: Question | None
    decision: Decision | None


def approval_of(places: Places) -> Approval:
    """Return question and decision of a plan. Raises `RequestError` for a document that Rescale did not write."""
    question_pin, decision_pin = open_store(places.target).stats([places.question, places.decision])
    return Approval(
        None if question_pin is None else read_json(places.question, Question),
        None if decision_pin is None else read_json(places.decision, Decision),
    )


def cut_over_decision(target: str) -> Decision | None:
    """Return the decision on the cut-over to the result in `target`; None if there is none yet."""
    uri = cut_over_place(target)
    return read_json(uri, Decision) if exists(uri) else None
