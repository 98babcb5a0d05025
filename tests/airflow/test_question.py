"""The question about a plan shows verdict, warnings and costs, then only a few operators, because buttons are below."""

from __future__ import annotations

from dataclasses import replace

from rescale.airflow.question import END_OF_QUESTION, question_markdown
from rescale.flink.metadata.handles import DistributionMode
from rescale.planning.planner import make_plan
from rescale.planning.request.request import make_request
from rescale.report.pages.planned import plan_document
from support.synthetic import element_stream, operator, snapshot

OPERATORS = 8


def question_about(*warnings: str) -> str:
    """Return the question about a plan with operators of 1 to 8 elements of state."""
    lists = {n: (element_stream(0, {"list": (DistributionMode.UNION, n)}),) for n in range(1, OPERATORS + 1)}
    source = snapshot(*(operator(f"op-{n}", elements=elements) for n, elements in lists.items()))
    plan = make_plan(source, make_request("/source", "/target", ["7"]))
    return question_markdown(plan_document(replace(plan, warnings=warnings), source))


def test_verdict_warnings_and_costs_come_before_the_operators() -> None:
    question = question_about("something is odd")
    assert question.startswith("**Can be done, with 1 warning.**")
    order = ["something is odd", "Costs", "to write", "| operator", "| op-8", "and 3 smaller operators"]
    places = [question.index(phrase) for phrase in order]
    assert places == sorted(places)
    assert END_OF_QUESTION not in question


def test_largest_operators_are_shown_first() -> None:
    rows = [line.split("|")[1].strip() for line in question_about().splitlines() if line.startswith("| op-")]
    assert rows == ["op-8", "op-7", "op-6", "op-5", "op-4"]


def test_question_without_warnings_says_so() -> None:
    assert question_about().startswith("**Can be done: no warning.**")
