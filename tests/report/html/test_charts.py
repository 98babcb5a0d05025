"""Charts as SVG: where bars, dots and parts stand."""

from __future__ import annotations

import re

import pytest

from rescale.report.figures import (
    AxisTick,
    BarCharts,
    Bars,
    Curve,
    Part,
    Point,
    Sparkline,
    Sparks,
    StackedBar,
    StackedBars,
)
from rescale.report.html.charts import bar_charts, curve, sparks, stacked_bars


def attributes(svg: str, tag: str, *names: str) -> list[tuple[str | None, ...]]:
    """Return these attributes of each element with the tag, None for one that is missing."""
    values = [dict(re.findall(r'([\w-]+)="([^"]*)"', each)) for each in re.findall(f"<{tag} ([^>]*)>", svg)]
    return [tuple(each.get(name) for name in names) for each in values]


def bars(heights: tuple[float, ...], tooltips: tuple[str, ...]) -> str:
    return str(bar_charts(BarCharts((Bars("before", heights, 0.5, tooltips, "worst ÷ mean 2.00"),))))


def test_bar_stands_on_the_bottom_and_an_empty_one_is_not_seen() -> None:
    chart = bars((1, 0.25, 0), ("most", "some", "none"))
    assert attributes(chart, "rect", "y", "height") == [("0.0", "120.0"), ("90.0", "30.0"), ("120.0", "0.0")]
    assert attributes(chart, "line", "x2", "y1", "y2") == [("100%", "60.0", "60.0")], "the mean"
    assert re.findall("<title>(.*?)</title>", chart) == ["most", "some", "none"]


def test_tiny_bar_is_seen() -> None:
    assert attributes(bars((1, 1e-6), ("most", "least")), "rect", "height")[1] == ("0.5",)


def test_many_bars_are_drawn_as_an_outline_from_the_first_to_the_last() -> None:
    chart = bars(tuple(1 - i / 999 for i in range(1000)), ())
    ((outline,),) = attributes(chart, "path", "d")
    assert outline is not None
    assert outline.startswith("M0 1000L0 0L")
    assert outline.endswith("L1000 1000L1000 1000Z")
    assert outline.count("L") == 201
    assert attributes(chart, "rect", "y") == []


def test_higher_points_of_a_curve_are_drawn_further_up_and_the_requested_one_last() -> None:
    points = (
        Point(0, 0, "1", is_even=True, is_requested=False),
        Point(0.5, 1, "2", is_even=False, is_requested=True),
        Point(1, 0.5, "3", is_even=False, is_requested=False),
    )
    figure = Curve(points, (AxisTick(0, "1"),), (AxisTick(1, "4"),), "parallelism", "worst ÷ mean")
    svg = str(curve(figure, "evenness"))
    assert attributes(svg, "circle", "cx", "cy", "class") == [
        ("6%", "158.0", "even"), ("97%", "92.0", None), ("51.5%", "26.0", "asked")
    ]  # fmt: skip
    segments = attributes(svg, "line", "x1", "x2", "y1", "y2")[1:]
    assert segments == [("6%", "51.5%", "158.0", "26.0"), ("51.5%", "97%", "26.0", "92.0")]


def test_parts_of_a_bar_lie_end_to_end_and_are_read_out() -> None:
    parts = (Part(0, 0.25, "read: 1 kB"), Part(2, 0.5, "copied: 2 kB"))
    svg = str(stacked_bars(StackedBars((StackedBar("rocksdb", parts, "about 3 s"),), ("read", "put", "copied"))))
    assert attributes(svg, "rect", "class", "x", "width") == [("kind0", "0%", "25%"), ("kind2", "25%", "50%")]
    assert attributes(svg, "svg", "aria-label") == [("rocksdb: read: 1 kB; copied: 2 kB; about 3 s",)]
    assert re.findall('<li><span class="key (kind.)".*?</span>(.*?)</li>', svg) == [
        ("kind0", "read"), ("kind1", "put"), ("kind2", "copied")
    ]  # fmt: skip


@pytest.mark.parametrize(("after", "headings"), [((0.5,), ["", "before", "after", ""]), ((), ["", "by subtask", ""])])
def test_small_bars_have_a_second_column_only_for_a_new_shape(after: tuple[float, ...], headings: list[str]) -> None:
    svg = str(sparks(Sparks((Sparkline("orders", (1, 0.5), after, "4, 2"), Sparkline("idle", (), (), "none")))))
    assert re.findall('<th scope="col">(.*?)</th>', svg) == headings
    assert svg.count("<td>") == 2 * (len(headings) - 1)
    assert len(attributes(svg, "rect", "y")) == 2 + len(after)
