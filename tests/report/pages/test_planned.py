"""Text of a plan."""

from __future__ import annotations

import msgspec
import pytest

from rescale.plan.plan import Plan
from rescale.planning.planner import make_plan
from rescale.planning.request.request import make_request
from rescale.report.documents import PlanDocument
from rescale.report.pages.planned import plan_document, plan_page
from rescale.report.renderers.text import render_text
from support.snapshots import directory, names, opened

_UNMOVABLE_SUFFIXES = ("unaligned", "changelog-over-heap")
MOVABLE_FIXTURES = [name for name in names() if "rocksdb-" not in name and not name.endswith(_UNMOVABLE_SUFFIXES)]


def plan_of(name: str, *parallelism: str) -> Plan:
    return make_plan(opened(name), make_request(directory(name), "/target", parallelism))


@pytest.mark.parametrize("name", MOVABLE_FIXTURES)
def test_plan_document_is_json_and_its_bytes_add_up(name: str) -> None:
    plan = plan_of(name)
    summary = plan_document(plan, opened(name))
    assert msgspec.json.decode(msgspec.json.encode(summary), type=PlanDocument) == summary
    operators = summary.operators
    assert sum(operator.keyed_bytes + operator.operator_bytes for operator in operators) == summary.bytes_moved
    for operator in operators:
        assert sum(share.bytes for share in operator.subtasks) == operator.keyed_bytes + operator.operator_bytes


def test_text_of_a_plan_shows_what_moves_where() -> None:
    plan = plan_of("2-lazy", "2", "lists=5")
    text = render_text(plan_page(plan_document(plan, opened("2-lazy"))))
    assert text.endswith(f"\nafterwards the job starts with: {plan.start.command}")
    assert text.startswith(f"plan {plan.digest[:8]}: 9 operators, ")
    assert f"from {directory('2-lazy')}" in text
    assert "to   /target" in text
    row_by_label = {line.split("  ")[0]: line for line in text.splitlines() if "→" in line}
    assert "3 → 2" in row_by_label["states"]
    assert "2 → 5" in row_by_label["lists"]
    assert "relocate" in row_by_label["states"]
    assert "64-127" in text
    assert "warning: only the parallelism changes" in text


@pytest.mark.parametrize("shape", [{}, {"max_parallelism": ["256"]}])
def test_both_tables_of_a_plan_have_the_same_evenness(shape: dict[str, list[str]]) -> None:
    source = opened("1.20-clicks")
    plan = make_plan(source, make_request(directory("1.20-clicks"), "/target", ["3"], **shape), {})
    summary = plan_document(plan, source)
    operator_by_id = {operator.operator_id: operator for operator in summary.operators}
    for advice in summary.insight.shapes:
        evenness_by_parallelism = {candidate.parallelism: candidate.evenness for candidate in advice.candidates}
        operator = operator_by_id[advice.operator_id]
        assert operator.new_evenness == evenness_by_parallelism[3]
        assert operator.evenness == (advice.now if shape else evenness_by_parallelism[4]) > 1.2


def test_operator_that_keeps_its_parallelism_has_no_arrow() -> None:
    text = render_text(plan_page(plan_document(plan_of("2-lazy"), opened("2-lazy"))))
    assert "3 →" not in text.split("Flink reads")[0]
    assert "new subtask" not in text


def test_start_command_names_the_target() -> None:
    assert "/target" in (plan_document(plan_of("2-lazy", "2"), opened("2-lazy")).start or "")
