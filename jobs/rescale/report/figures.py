"""Figures as values: what is drawn where in a figure, and the texts that appear on hover.

A renderer decides how figures look. Positions and heights are fractions of the drawing, from 0 to 1. Shades go from 0
(empty) to 255 (full).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Share(NamedTuple):
    """A part of a horizontal line, from `start` to `end`, with a short label inside it."""

    start: float
    end: float
    label: str
    tooltip: str


class Mark(NamedTuple):
    """A marked position on a horizontal line."""

    at: float
    tooltip: str


@dataclass(frozen=True)
class Strip:
    """The key groups of an operator in order, with the subtasks that own them and the bytes that they hold.

    `shades` show the bytes, and the tooltips of `parts` give their number. `owners` is empty if there are too many
    subtasks to draw.
    """

    label: str
    owners: tuple[Share, ...]
    shades: tuple[int, ...]
    parts: tuple[Share, ...]
    hot: tuple[Mark, ...]


class Ribbon(NamedTuple):
    """State that moves: from a part of the upper line (the old shape) to a part of the lower line (the new shape).

    `keeps_subtask` is true if the subtask keeps its number. `is_odd` is true if the new subtask has an odd number, so
    that neighbours look different.
    """

    start: float
    end: float
    new_start: float
    new_end: float
    keeps_subtask: bool
    is_odd: bool
    tooltip: str


@dataclass(frozen=True)
class KeyGroupMap:
    """An operator's key groups now and, with a plan, afterwards; ribbons connect them unless there are too many."""

    before: Strip
    ribbons: tuple[Ribbon, ...] = ()
    after: Strip | None = None


@dataclass(frozen=True)
class Matrix:
    """Bytes that move from each old subtask (row) to each new subtask (column), as shades.

    If there are many subtasks, neighbours share a row or column.
    """

    row_label: str
    column_label: str
    shades: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Bars:
    """A bar for each subtask of a shape, the fullest first; `tooltips` is empty if there are too many subtasks."""

    label: str
    heights: tuple[float, ...]
    mean: float
    tooltips: tuple[str, ...]
    caption: str


@dataclass(frozen=True)
class BarCharts:
    """Bar charts side by side, with the same scale."""

    charts: tuple[Bars, ...]


class Point(NamedTuple):
    """A parallelism on a curve.

    `is_even` tells whether it divides the max parallelism, and `is_requested` whether it is that of the shape.
    """

    x: float
    y: float
    tooltip: str
    is_even: bool
    is_requested: bool


class AxisTick(NamedTuple):
    """A labelled position on an axis."""

    at: float
    label: str


@dataclass(frozen=True)
class Curve:
    """A curve: points from left to right, and the ticks and labels of both axes; y goes up."""

    points: tuple[Point, ...]
    x_ticks: tuple[AxisTick, ...]
    y_ticks: tuple[AxisTick, ...]
    x_label: str
    y_label: str


class Part(NamedTuple):
    """A part of a bar; `legend_index` is the index of its entry in the legend."""

    legend_index: int
    length: float
    tooltip: str


class StackedBar(NamedTuple):
    label: str
    parts: tuple[Part, ...]
    total_text: str


@dataclass(frozen=True)
class StackedBars:
    """Horizontal bars that consist of parts end to end, and their legend."""

    bars: tuple[StackedBar, ...]
    legend: tuple[str, ...]


class Sparkline(NamedTuple):
    """Small bars for the subtasks now and, with a plan, afterwards; `caption` gives their numbers as text."""

    label: str
    before: tuple[float, ...]
    after: tuple[float, ...]
    caption: str


@dataclass(frozen=True)
class Sparks:
    """Rows of small bars, a row for each state or source."""

    rows: tuple[Sparkline, ...]


DrawnFigure = KeyGroupMap | Matrix | BarCharts | Curve | StackedBars | Sparks
