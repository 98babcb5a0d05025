"""Bar charts, curves and small bars as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from htpy import Element, Node, div, li, span, table, tbody, td, th, thead, tr, ul

from rescale.report.figures import BarCharts, Bars, Curve, Point, Sparks, StackedBar, StackedBars
from rescale.report.html.svg import (
    circle,
    drawing,
    g,
    hover_text,
    line,
    path,
    path_through,
    percentage,
    rect,
    stretched,
    text,
)

_BAR_HEIGHT, _CURVE_HEIGHT, _SPACE_ABOVE, _SPACE_BELOW, _MARGIN = 120, 150, 14, 22, 0.06
_STACK_HEIGHT, _SPARK_HEIGHT = 16, 18


def bar_charts(figure: BarCharts) -> Element:
    return div(class_="side-by-side")[
        (
            div[_bars(chart), div(class_="caption")[span(class_="name")[chart.label], f" {chart.caption}"]]
            for chart in figure.charts
        )
    ]


def _bars(chart: Bars) -> Element:
    mean_y = _BAR_HEIGHT * (1 - chart.mean)
    return drawing(
        f"{chart.label}: {chart.caption}",
        _BAR_HEIGHT,
        g(class_="bars")[tuple(_bar_rects(chart.heights, _BAR_HEIGHT, chart.tooltips))]
        if chart.tooltips
        else _area(chart),
        line(class_="mean", x1=0, x2="100%", y1=f"{mean_y:.1f}", y2=f"{mean_y:.1f}"),
        css_class="framed",
    )


def _bar_rects(heights: Sequence[float], full_height: int, tooltips: Sequence[str] = ()) -> Iterator[Node]:
    """Yield a bar for each height, with a small gap between bars."""
    width = 1 / len(heights)
    for i, height in enumerate(heights):
        bar_height = max(full_height * height, 0.5 if height else 0)
        attributes = {"x": percentage((i + 0.06) * width), "width": percentage(0.88 * width)}
        yield rect(y=f"{full_height - bar_height:.1f}", height=f"{bar_height:.1f}", **attributes)[
            hover_text(tooltips[i]) if tooltips else None
        ]


_MOST_AREA_POINTS = 200


def _area(chart: Bars) -> Element:
    last_index = len(chart.heights) - 1
    step_count = min(last_index + 1, _MOST_AREA_POINTS)
    sampled_points = [
        (i / (step_count - 1), chart.heights[i * last_index // (step_count - 1)]) for i in range(step_count)
    ]
    outline = path_through([(0.0, 0.0), *sampled_points, (1.0, 0.0)])
    return stretched(0, _BAR_HEIGHT, path(class_="area", d=outline + "Z"))


def curve(figure: Curve, description: str) -> Element:
    def x(at: float) -> str:
        return percentage(_MARGIN + at * (1 - 1.5 * _MARGIN))

    def y(at: float) -> str:
        return f"{_SPACE_ABOVE + 12 + (_CURVE_HEIGHT - 18) * (1 - at):.1f}"

    def dot(point: Point) -> Node:
        css_class = "asked" if point.is_requested else "even" if point.is_even else None
        radius = "6" if point.is_requested else "3.5" if point.is_even else "1.5"
        return circle(cx=x(point.x), cy=y(point.y), r=radius, class_=css_class)[hover_text(point.tooltip)]

    label_y = _SPACE_ABOVE + _CURVE_HEIGHT + 16
    sorted_points = sorted(figure.points, key=lambda point: point.is_requested)
    segments = zip(figure.points, figure.points[1:], strict=False)
    return drawing(
        description,
        _SPACE_ABOVE + _CURVE_HEIGHT + 2 * _SPACE_BELOW,
        g(class_="axes")[
            text(x=0, y=_SPACE_BELOW // 2)[figure.y_label],
            text(x="50%", y=label_y + _SPACE_BELOW, class_="of-x")[figure.x_label],
        ],
        g(class_="grid")[
            (line(x1=x(0), x2=x(1), y1=y(tick.at), y2=y(tick.at)) for tick in figure.y_ticks),
            (text(x=0, y=y(tick.at), dy=4)[tick.label] for tick in figure.y_ticks),
        ],
        g(class_="line")[(line(x1=x(start.x), y1=y(start.y), x2=x(end.x), y2=y(end.y)) for start, end in segments)],
        g(class_="dots")[map(dot, sorted_points)],
        g(class_="ticks")[(text(x=x(tick.at), y=label_y)[tick.label] for tick in figure.x_ticks)],
        css_class="curve",
    )


def stacked_bars(figure: StackedBars) -> Element:
    """Return the bars with a legend; labels are HTML text, which wraps if there is little room."""
    return div(class_="stacks")[
        map(_stack, figure.bars),
        ul(class_="legend")[
            (
                li[span(class_=f"key kind{legend_index}", aria_hidden="true"), meaning]
                for legend_index, meaning in enumerate(figure.legend)
            )
        ],
    ]


def _stack(bar: StackedBar) -> Node:
    parts: list[Node] = []
    left_edge = 0.0
    for segment in bar.parts:
        parts.append(
            rect(
                class_=f"kind{segment.legend_index}",
                x=percentage(left_edge),
                width=percentage(segment.length),
                height=12,
            )[hover_text(segment.tooltip)]
        )
        left_edge += segment.length
    description = f"{bar.label}: {'; '.join(segment.tooltip for segment in bar.parts)}; {bar.total_text}"
    return div(class_="stack")[
        div(class_="name")[bar.label], drawing(description, 12, parts), div(class_="total")[bar.total_text]
    ]


def sparks(figure: Sparks) -> Element:
    """Return a table whose cells hold small bars."""
    has_after = any(row.after for row in figure.rows)
    return div(class_="scroll", tabindex="0", role="region", aria_label="Small bars")[
        table(class_="sparks")[
            thead[
                tr[
                    th(scope="col")[""],
                    th(scope="col")["before" if has_after else "by subtask"],
                    th(scope="col")["after"] if has_after else None,
                    th(scope="col")[""],
                ]
            ],
            tbody[
                (
                    tr[
                        th(scope="row")[row.label],
                        td[_sparkline(row.before)],
                        td[_sparkline(row.after)] if has_after else None,
                        td[row.caption],
                    ]
                    for row in figure.rows
                )
            ],
        ]
    ]


def _sparkline(heights: Sequence[float]) -> Node:
    if not heights:
        return ""
    bars = g(class_="bars")[tuple(_bar_rects(heights, _SPARK_HEIGHT))]
    return drawing("small bars; the numbers are beside them", _SPARK_HEIGHT, bars, css_class="spark")
