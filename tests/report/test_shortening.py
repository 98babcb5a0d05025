"""Texts of large jobs are shortened: they show the largest and the changed parts, and count the rest."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec import structs

from rescale.report.differences import DiffDocument, DiffedOperator, DiffedState, StateAmount
from rescale.report.documents import PlanDocument
from rescale.report.pages.difference import difference_page
from rescale.report.pages.inspection import inspection_page
from rescale.report.pages.outcome import certificate_page
from rescale.report.pages.plan_markdown import plan_markdown
from rescale.report.pages.planned import plan_page
from rescale.report.renderers.text import render_text
from rescale.report.shortening import MOST_OPERATORS, state_bytes
from rescale.snapshot.surgery import NO_SURGERY
from support.reports import certificate_of, plan_of_report, snapshot_report

ALL_IN_DOCUMENT = "all in the JSON document"
MORE_IN_REPORT = f"more in the report, {ALL_IN_DOCUMENT}"


@pytest.fixture(scope="module")
def plan() -> PlanDocument:
    return plan_of_report((4, 128), (40, 128), operators=120)


def test_plan_of_many_operators_is_shortened(plan: PlanDocument) -> None:
    text = render_text(plan_page(plan))
    assert len(text.splitlines()) < 160
    assert f"{len(plan.operators) - MOST_OPERATORS} more operators with " in text
    assert text.count(MORE_IN_REPORT) >= 2
    largest = max(plan.operators, key=lambda operator: operator.keyed_bytes)
    fullest = max(largest.subtasks, key=lambda share: share.bytes)
    rows = [line.split() for line in text.splitlines() if line.startswith(f"{largest.label} ")]
    assert any(row[1:3] == [str(fullest.subtask), fullest.key_groups] for row in rows)
    assert len(plan_markdown(plan).splitlines()) < 100


def test_table_of_new_subtasks_shows_whole_operators() -> None:
    plan = plan_of_report((4, 128), (10, 128), operators=12)
    lines = render_text(plan_page(plan)).splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("operator ") and "new subtask" in line)
    end = next(i for i, line in enumerate(lines) if "more new subtasks" in line)
    rows = Counter(line.split()[0] for line in lines[begin + 2 : end] if line)
    assert set(rows.values()) == {10}
    number_of_subtasks = sum(len(operator.subtasks) for operator in plan.operators)
    assert lines[end].startswith(f"{number_of_subtasks - rows.total()} more new subtasks")


def test_operator_that_changes_is_shown_however_small_it_is(plan: PlanDocument) -> None:
    smallest = min(plan.operators, key=state_bytes)
    operators = tuple(
        structs.replace(operator, label="the smallest", new_parallelism=40)
        if operator is smallest
        else structs.replace(operator, new_parallelism=operator.parallelism)
        for operator in plan.operators
    )
    assert "\nthe smallest " in render_text(plan_page(structs.replace(plan, operators=operators)))


def test_few_operators_are_all_shown_in_their_order() -> None:
    plan = plan_of_report((2, 128), (3, 128))
    text = render_text(plan_page(plan))
    assert MORE_IN_REPORT not in text
    positions = [text.index(f"\n{operator.label} ") for operator in plan.operators]
    assert positions == sorted(positions)


def test_inspection_of_many_operators_is_shortened() -> None:
    snapshot = snapshot_report(2, 128, operators=200).snapshot
    assert snapshot is not None
    text = render_text(inspection_page(snapshot))
    assert len(text.splitlines()) < 160
    assert f"{len(snapshot.operators) - MOST_OPERATORS} more operators with " in text


def test_certificate_of_many_operators_is_shortened(plan: PlanDocument) -> None:
    text = render_text(certificate_page(certificate_of(plan)))
    assert f"{len(plan.operators) - MOST_OPERATORS} more operators with less state: {ALL_IN_DOCUMENT}" in text


def test_comparison_of_many_states_shows_differing_ones_first() -> None:
    amount = StateAmount(1, "ab")
    states = tuple(DiffedState(f"s{i}", "VALUE", i != 99, "records", amount, amount, 1, (), None) for i in range(100))
    operator = DiffedOperator("0" * 32, "visits", False, None, None, (), states)
    text = render_text(difference_page(DiffDocument("different", False, "/a", "/b", (operator,), NO_SURGERY)))
    assert f"52 more states: {ALL_IN_DOCUMENT}" in text
    assert "different" in next(line for line in text.splitlines() if " s99 " in line)
