"""Figures as values: what is drawn, in parts of the width and height that there are, and what each part says.

A renderer decides how they look. Positions and heights go from 0 to 1, shades from 0 (nothing) to 255 (all there is).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Share(NamedTuple):
    """A part of a line, from `start` to `end`; `label` is short enough to stand in it."""

    start: float
    end: float
    label: str
    words: str


class Mark(NamedTuple):
    """A place on a line that is worth a look."""

    at: float
    words: str


@dataclass(frozen=True)
class Strip:
    """All key groups from the first to the last: who owns them, and how many bytes they hold.

    `owners` are left out where there are too many to be told apart; `parts` say what lies where.
    """

    label: str
    owners: tuple[Share, ...]
    shades: tuple[int, ...]
    parts: tuple[Share, ...]
    hot: tuple[Mark, ...]


class Ribbon(NamedTuple):
    """What goes from one part of the line above to one of the line below.

    `stays`: with the subtask of the same number; `odd`: to one with an odd number, so that neighbours look different.
    """

    start: float
    end: float
    new_start: float
    new_end: float
    stays: bool
    odd: bool
    words: str


@dataclass(frozen=True)
class KeyGroupMap:
    """The key groups before and, where that is asked, after; ribbons between them where there are not too many."""

    before: Strip
    ribbons: tuple[Ribbon, ...] = ()
    after: Strip | None = None


@dataclass(frozen=True)
class Matrix:
    """How much goes from old subtasks (rows, from above) to new ones (columns), several in one where they are many."""

    rows: str
    columns: str
    shades: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Bars:
    """The subtasks of one shape, the fullest first, by the height of each; `words` are there if they are few."""

    label: str
    heights: tuple[float, ...]
    mean: float
    words: tuple[str, ...]
    caption: str


@dataclass(frozen=True)
class BarCharts:
    """Side by side, in one scale."""

    charts: tuple[Bars, ...]


class Point(NamedTuple):
    x: float
    y: float
    words: str
    even: bool
    asked: bool


class AxisTick(NamedTuple):
    """A number beside an axis."""

    at: float
    label: str


@dataclass(frozen=True)
class Curve:
    """Points from left to right; y goes up."""

    points: tuple[Point, ...]
    x_ticks: tuple[AxisTick, ...]
    y_ticks: tuple[AxisTick, ...]
    x_label: str
    y_label: str


class Part(NamedTuple):
    """A part of a bar; `kind` is the number of its line in the legend."""

    kind: int
    length: float
    words: str


class StackedBar(NamedTuple):
    label: str
    parts: tuple[Part, ...]
    total: str


@dataclass(frozen=True)
class StackedBars:
    """Bars from left to right, each of parts end to end."""

    bars: tuple[StackedBar, ...]
    legend: tuple[str, ...]


class Spark(NamedTuple):
    """Small bars, before and (where there is one) after, and what they say."""

    label: str
    before: tuple[float, ...]
    after: tuple[float, ...]
    words: str


@dataclass(frozen=True)
class Sparks:
    """Rows of small bars."""

    rows: tuple[Spark, ...]


Drawing = KeyGroupMap | Matrix | BarCharts | Curve | StackedBars | Sparks
