"""Figures of the load of subtasks: the fullest first, and how evenly other parallelisms would share the state."""

from __future__ import annotations

from random import Random

import pytest

from rescale.flink.key_groups import key_group_range
from rescale.report.detail import DETAIL_LEVELS
from rescale.report.figures import BarCharts, Curve, Point
from rescale.report.flows import KeyedShape
from rescale.report.sections.keyed_operator import KeyedOperator, KeyedSide
from rescale.report.sections.loads import MOST_DRAWN_SUBTASKS, evenness_curve, fullest, load_charts

MOST_DETAIL = DETAIL_LEVELS[0]


def side(parallelism: int, sizes: list[int], name: str = "before") -> KeyedSide:
    return KeyedSide(name, KeyedShape(parallelism, len(sizes)), sizes, is_exact=True)


def bars(operator: KeyedOperator) -> BarCharts:
    drawing = load_charts(operator, MOST_DETAIL).drawing
    assert isinstance(drawing, BarCharts)
    return drawing


def curve(keyed_side: KeyedSide) -> Curve:
    drawing = evenness_curve(keyed_side, MOST_DETAIL).drawing
    assert isinstance(drawing, Curve)
    return drawing


def test_fullest_subtasks_come_first_and_equal_ones_in_order() -> None:
    assert fullest([5, 9, 9, 1], 3) == [(1, 9), (2, 9), (0, 5)]


def test_charts_before_and_after_have_one_scale() -> None:
    sizes = [10, 20, 30, 40]
    before, after = bars(KeyedOperator("counts", side(4, sizes), side(2, sizes, "after"), ())).charts
    assert before.heights == pytest.approx((40 / 70, 30 / 70, 20 / 70, 10 / 70))
    assert after.heights == pytest.approx((1, 30 / 70))
    assert (before.mean, after.mean) == (25 / 70, 50 / 70)
    assert before.tooltips[0] == "subtask 3: 40 bytes"
    assert "worst ÷ mean 1.60; most 40 bytes (subtask 3), mean 25 bytes, least 10 bytes" in before.caption


def test_empty_state_is_drawn_as_even() -> None:
    (chart,) = bars(KeyedOperator("counts", side(2, [0, 0]), None, ())).charts
    assert chart.heights == (0, 0)
    assert "worst ÷ mean 1.00" in chart.caption


def test_many_subtasks_have_no_tooltips_and_a_table_of_the_fullest() -> None:
    sizes = list(range(MOST_DRAWN_SUBTASKS + 1))
    operator = KeyedOperator("counts", side(len(sizes), sizes), None, ())
    assert bars(operator).charts[0].tooltips == ()
    assert load_charts(operator, MOST_DETAIL).rows_text == f"the {MOST_DETAIL.most_rows} fullest subtasks"


@pytest.mark.parametrize(("max_parallelism", "parallelism"), [(128, 3), (12, 4), (1, 1), (1000, 7)])
def test_curve_is_the_worst_subtask_at_each_parallelism(max_parallelism: int, parallelism: int) -> None:
    random = Random(max_parallelism)
    sizes = [random.randrange(1, 1000) for _ in range(max_parallelism)]
    point_by_parallelism = {parallelism_of(point): point for point in curve(side(parallelism, sizes)).points}
    highest_evenness = max(2.0, *(evenness(sizes, candidate) for candidate in point_by_parallelism))
    assert highest_evenness < 4, "no value is cut off"
    for candidate, point in point_by_parallelism.items():
        assert f"worst ÷ mean {evenness(sizes, candidate):.2f}" in point.tooltip
        assert point.y == pytest.approx((evenness(sizes, candidate) - 1) / (highest_evenness - 1))
    last_parallelism = min(max_parallelism, max(4 * parallelism, 16))
    assert [candidate for candidate, point in point_by_parallelism.items() if point.is_even] == [
        candidate for candidate in range(1, last_parallelism + 1) if max_parallelism % candidate == 0
    ]
    assert [candidate for candidate, point in point_by_parallelism.items() if point.is_requested] == [parallelism]


def parallelism_of(point: Point) -> int:
    return int(point.tooltip.removeprefix("parallelism ").partition(":")[0])


def evenness(sizes: list[int], parallelism: int) -> float:
    """Return the bytes of the fullest subtask, divided by the mean of all subtasks."""
    group_ranges = [key_group_range(len(sizes), parallelism, subtask) for subtask in range(parallelism)]
    return max(sum(sizes[groups.first : groups.last + 1]) for groups in group_ranges) * parallelism / sum(sizes)


def test_values_above_the_top_of_the_curve_are_drawn_at_the_top() -> None:
    clipped_curve = curve(side(2, [1000] + [1] * 99))
    assert max(point.y for point in clipped_curve.points) == 1
    assert clipped_curve.y_ticks[-1].label == "≥ 4"
