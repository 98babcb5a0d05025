"""A plan as Markdown, for its approver."""

from __future__ import annotations

from msgspec import structs

from rescale.planning.planner import make_plan
from rescale.planning.request.request import make_request
from rescale.planning.request.result_files import Format
from rescale.report.pages.plan_markdown import plan_markdown
from rescale.report.pages.planned import plan_document
from support.snapshots import directory, opened


def markdown(*max_parallelism: str) -> str:
    request = make_request(
        directory("1.20-rocksdb-native"), "/target", ["3"], max_parallelism=max_parallelism, format=Format.CANONICAL
    )
    snapshot = opened("1.20-rocksdb-native")
    return plan_markdown(plan_document(make_plan(snapshot, request), snapshot))


def test_markdown_has_totals_largest_operators_and_all_warnings() -> None:
    request = make_request(directory("2-clicks"), "/target", ["6"])
    plan = make_plan(opened("2-clicks"), request)
    text = plan_markdown(plan_document(plan, opened("2-clicks")))
    assert f"plan `{plan.digest[:8]}`" in text
    assert "to `/target`" in text
    table = text.split("### The 10 largest operators")[1].split("###")[0]
    assert table.count("4 → 6") == 10
    assert "clicks-per-user" in table
    assert all(f"* {warning}" in text for warning in plan.warnings)
    assert "* relocate: the max parallelism stays" in text
    assert "* worst ÷ mean: the keyed state of the fullest subtask" in text
    assert "the job is down" in text
    assert plan.start.command in text


def test_markdown_says_what_a_rescale_by_flink_would_cost() -> None:
    text = markdown()
    assert "| 2 → 3 (as asked)" in text
    assert "2 → 3 costs Flink more than 2 → 4" in text
    assert "Flink's own rescale, without this run" in text


def test_markdown_says_that_flink_refuses_another_max_parallelism() -> None:
    text = markdown("8")
    assert "Flink itself cannot do this" in text
    assert "as asked" not in text
    assert "Flink's own rescale" not in text


def test_label_with_a_pipe_does_not_break_the_table() -> None:
    summary = plan_document(
        make_plan(opened("2-lazy"), make_request(directory("2-lazy"), "/t", ["2"])), opened("2-lazy")
    )
    operators = (structs.replace(summary.operators[0], label="a|b"), *summary.operators[1:])
    assert "| a\\|b" in plan_markdown(structs.replace(summary, operators=operators))
