"""Figures of the bytes that an operator's subtasks hold: now, afterwards, and at other parallelisms.

*Worst ÷ mean* is the bytes of the fullest subtask divided by the mean of all subtasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from math import log

from rescale.insight.shapes import evenness_over
from rescale.report.detail import DetailLevel
from rescale.report.figures import AxisTick, BarCharts, Bars, Curve, Point
from rescale.report.flows import subtask_loads
from rescale.report.page import Figure, table
from rescale.report.sections.keyed_operator import KeyedOperator, KeyedSide
from rescale.text.units import counted, human_bytes

MOST_DRAWN_SUBTASKS = 64
"""Largest number of subtasks that are drawn one by one."""

_MOST_POINTS = 90
_LARGEST_RATIO = 4.0
"""Largest value of worst ÷ mean that the curve shows; larger values are drawn at its top."""

_Y_TICKS = (1.0, 1.5, 2.0, 3.0, 4.0)


def load_charts(operator: KeyedOperator, detail: DetailLevel) -> Figure:
    """Return charts of the keyed bytes of every subtask, the fullest first; old and new shape have one scale."""
    sides = [(side.name, subtask_loads(side.sizes, side.shape.parallelism)) for side in operator.sides]
    largest_size = max(max(sizes) for _, sizes in sides) or 1
    charts = tuple(_bars(name, sizes, largest_size) for name, sizes in sides)
    rows = [
        (name, subtask, human_bytes(size), f"{size / mean:.2f}")
        for name, sizes in sides
        if (mean := sum(sizes) / len(sizes))
        for subtask, size in fullest(sizes, detail.most_rows)
    ]
    is_cut = max(len(sizes) for _, sizes in sides) > detail.most_rows
    return Figure(
        "Load by subtask",
        "Keyed state of every subtask, the fullest first. The line is the mean.",
        BarCharts(charts),
        table(("", "subtask", "keyed state", "÷ mean"), rows),
        f"the {detail.most_rows} fullest subtasks" if is_cut else "subtasks",
    )


def _bars(label: str, sizes: Sequence[int], largest_size: int) -> Bars:
    ranked_sizes = fullest(sizes, len(sizes))
    mean = sum(sizes) / len(sizes)
    worst_text = f"{ranked_sizes[0][1] / mean:.2f}" if mean else "1.00"
    caption = (
        f"{counted(len(sizes), 'subtask')}, worst ÷ mean {worst_text}; most {human_bytes(ranked_sizes[0][1])} (subtask "
        f"{ranked_sizes[0][0]}), mean {human_bytes(mean)}, least {human_bytes(ranked_sizes[-1][1])}"
    )
    has_few_subtasks = len(sizes) <= MOST_DRAWN_SUBTASKS
    tooltips = (
        tuple(f"subtask {subtask}: {human_bytes(size)}" for subtask, size in ranked_sizes) if has_few_subtasks else ()
    )
    return Bars(label, tuple(size / largest_size for _, size in ranked_sizes), mean / largest_size, tooltips, caption)


def evenness_curve(side: KeyedSide, detail: DetailLevel) -> Figure:
    """Return the curve of worst ÷ mean of bytes over the parallelism, up to four times the parallelism of `side`.

    A ring marks the parallelism of `side`, filled dots mark parallelisms that divide the max parallelism.
    """
    requested_parallelism, max_parallelism = side.shape.parallelism, side.shape.max_parallelism
    cumulative_bytes = list(accumulate(side.sizes, initial=0))
    last_parallelism = min(max_parallelism, max(4 * requested_parallelism, 16))
    parallelisms = _parallelisms(max_parallelism, last_parallelism, requested_parallelism)
    evenness_by_parallelism = {
        parallelism: evenness_over(cumulative_bytes, parallelism) for parallelism in parallelisms
    }
    marked_parallelisms = [
        parallelism
        for parallelism in parallelisms
        if max_parallelism % parallelism == 0 or parallelism == requested_parallelism
    ]
    nearest_parallelisms = sorted(
        sorted(marked_parallelisms, key=lambda parallelism: abs(log(parallelism / requested_parallelism)))[
            : detail.most_rows
        ]
    )
    rows = [
        (
            parallelism,
            f"{evenness_by_parallelism[parallelism]:.2f}",
            group_counts_text(max_parallelism, parallelism),
            "asked" if parallelism == requested_parallelism else "",
        )
        for parallelism in nearest_parallelisms
    ]
    requested_evenness = evenness_by_parallelism[requested_parallelism]
    return Figure(
        "Evenness over parallelism",
        f"At parallelism {requested_parallelism}, the fullest subtask holds {requested_evenness:.2f} times the mean of "
        f"bytes. Filled dots are parallelisms that divide the max parallelism {max_parallelism:,}: all subtasks own "
        "equally many key groups. "
        f"The ring is parallelism {requested_parallelism}.",
        _curve(evenness_by_parallelism, last_parallelism, requested_parallelism, max_parallelism),
        table(("parallelism", "worst ÷ mean of bytes", "key groups of a subtask", ""), rows),
        "parallelisms that divide",
    )


def _curve(
    evenness_by_parallelism: Mapping[int, float],
    last_parallelism: int,
    requested_parallelism: int,
    max_parallelism: int,
) -> Curve:
    """Return the curve from 1 to `last_parallelism`; evenness is worst ÷ mean of bytes."""
    largest_height = min(_LARGEST_RATIO, max(2.0, *evenness_by_parallelism.values()))
    points = tuple(
        Point(
            _log_position(parallelism, last_parallelism),
            (min(height, largest_height) - 1) / (largest_height - 1),
            f"parallelism {parallelism}: worst ÷ mean {height:.2f}, {group_counts_text(max_parallelism, parallelism)} "
            "key groups each",
            max_parallelism % parallelism == 0,
            parallelism == requested_parallelism,
        )
        for parallelism, height in evenness_by_parallelism.items()
    )
    ticks = tuple(
        AxisTick(_log_position(parallelism, last_parallelism), f"{parallelism:,}")
        for parallelism in _tick_numbers(last_parallelism)
    )
    at_least = "≥ " if max(evenness_by_parallelism.values()) > largest_height else ""
    y_ticks = tuple(
        AxisTick((height - 1) / (largest_height - 1), f"{at_least if height == largest_height else ''}{height:.3g}")
        for height in _Y_TICKS
        if height <= largest_height
    )
    return Curve(points, ticks, y_ticks, "parallelism", "worst ÷ mean")


def _parallelisms(max_parallelism: int, last_parallelism: int, requested_parallelism: int) -> list[int]:
    """Return the parallelisms of the curve in order: divisors of `max_parallelism`, the requested one, some others."""
    divisors = [number for number in range(1, last_parallelism + 1) if max_parallelism % number == 0]
    step_count = max(_MOST_POINTS - len(divisors), 10)
    spaced_numbers = [round(last_parallelism ** (step / step_count)) for step in range(step_count + 1)]
    return sorted({*divisors, *spaced_numbers, requested_parallelism})


def _log_position(parallelism: int, last_parallelism: int) -> float:
    return log(parallelism) / log(last_parallelism) if last_parallelism > 1 else 0.5


def _tick_numbers(last_parallelism: int) -> Iterator[int]:
    number = 1
    while number <= last_parallelism:
        yield number
        number *= 2 if last_parallelism <= 64 else 4 if last_parallelism <= 4096 else 8


def group_counts_text(max_parallelism: int, parallelism: int) -> str:
    """Return the number of key groups that a subtask owns, as in `42 or 43`."""
    least, remainder = divmod(max_parallelism, parallelism)
    return f"{least} or {least + 1}" if remainder else str(least)


def fullest(sizes: Sequence[int], subtask_count: int) -> list[tuple[int, int]]:
    """Return (subtask, bytes) of the `subtask_count` fullest subtasks, the fullest first."""
    return sorted(enumerate(sizes), key=lambda item: (-item[1], item[0]))[:subtask_count]
