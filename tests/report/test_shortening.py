"""Jobs of hundreds of operators and thousands of subtasks, on a terminal: what matters, and that there is more."""

from __future__ import annotations

from typing import Any

import pytest

from rescale.report.pages.difference import difference_text
from rescale.report.pages.inspection import inspection_text
from rescale.report.pages.outcome import certificate_text
from rescale.report.pages.plan_markdown import plan_markdown
from rescale.report.pages.planned import plan_text
from rescale.report.shortening import MOST_OPERATORS
from rescale.snapshot.surgery import NO_SURGERY
from support.reports import plan_report, proven, snapshot_report

ALL = "all in the JSON (--output json)"
MORE = f"more in the report, {ALL}"


@pytest.fixture(scope="module")
def planned() -> dict[str, Any]:
    return proven(plan_report((4, 128), (40, 128), operators=120))


def test_a_plan_of_many_operators(planned: dict[str, Any]) -> None:
    plan = planned["plan"]
    text = plan_text(plan)
    assert len(text.splitlines()) < 160
    assert f"{len(plan['operators']) - MOST_OPERATORS} more operators with " in text
    assert text.count(MORE) >= 2
    largest = max(plan["operators"], key=lambda one: one["keyed_bytes"])
    fullest = max(largest["subtasks"], key=lambda one: one["bytes"])
    rows = [line.split() for line in text.splitlines() if line.startswith(f"{largest['label']} ")]
    assert any(row[1:3] == [str(fullest["subtask"]), fullest["key_groups"]] for row in rows)
    assert len(plan_markdown(plan).splitlines()) < 100


def test_what_changes_is_shown_however_small_it_is(planned: dict[str, Any]) -> None:
    operators = [{**one, "new_parallelism": one["parallelism"]} for one in planned["plan"]["operators"]]
    smallest = min(operators, key=lambda one: one["keyed_bytes"] + one["operator_bytes"])
    smallest.update(label="the one", new_parallelism=40)
    assert "\nthe one " in plan_text({**planned["plan"], "operators": operators})


def test_few_are_all_shown_as_they_come() -> None:
    plan = plan_report((2, 128), (3, 128))["plan"]
    text = plan_text(plan)
    assert MORE not in text
    places = [text.index(f"\n{one['label']} ") for one in plan["operators"]]
    assert places == sorted(places)


def test_a_snapshot_of_many_operators() -> None:
    snapshot = snapshot_report(2, 128, operators=200)["snapshot"]
    text = inspection_text(snapshot)
    assert len(text.splitlines()) < 160
    assert f"{len(snapshot['operators']) - MOST_OPERATORS} more operators with " in text


def test_a_certificate_of_many_operators(planned: dict[str, Any]) -> None:
    text = certificate_text(planned["certificate"])
    assert f"{len(planned['certificate']['operators']) - MOST_OPERATORS} more operators with less state: {ALL}" in text


def test_a_difference_shows_what_differs_first() -> None:
    side = {"count": 1, "digest": "ab"}
    states = [
        {"state": f"s{i}", "type": "VALUE", "counted": "records", "a": side, "b": side, "equal": i != 99}
        | {"differences": [], "differing_at_least": 1, "remark": None}
        for i in range(100)
    ]
    operators = [{"label": "visits", "states": states, "differences": []}]
    found = {"verdict": "different", "equal": False, "a": "/a", "b": "/b", "operators": operators}
    text = difference_text({**found, "surgery": NO_SURGERY.document()})
    assert f"52 more states: {ALL}" in text
    assert "different" in next(line for line in text.splitlines() if " s99 " in line)
