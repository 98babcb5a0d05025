"""What it costs: Flink's own way, restoring the formats that there are, and the steps of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rescale.report.figures import Part, StackedBar, StackedBars
from rescale.report.page import Block, Figure, Section, paragraph, table
from rescale.report.pages.insights import FORMATS, RESTORES, formats_table, restore_shape, restores_table
from rescale.report.units import duration, human_bytes

_LEGEND = ("read", "put into the backend, record by record", "copied out of other databases, row by row")


def costs(insight: dict[str, Any], took: dict[str, float]) -> list[Block]:
    """Of a plan's or a snapshot's insight; `took` are the seconds of the steps that have ended."""
    blocks: list[Block] = [*_own_rescale(insight), *_formats(insight), *_steps(insight, took)]
    if not blocks:
        return []
    note = "Seconds are estimates from measured rates: they tell seconds, minutes and hours apart."
    return [Section("What it costs", (*blocks, paragraph(note)))]


def _own_rescale(insight: dict[str, Any]) -> list[Block]:
    refused = [paragraph(restore["refused"]) for restore in insight["restores"] if restore["refused"]]
    done = [restore for restore in insight["restores"] if restore["operators"]]
    if not done:
        return [*refused]
    rows = [_restored(restore) for restore in done]
    figure = Figure(RESTORES, "What all subtasks do together.", _bars(rows), restores_table(insight))
    return [*refused, figure]


_Row = tuple[str, tuple[int, int, int], str]


def _restored(restore: dict[str, Any]) -> _Row:
    read = replayed = copied = 0
    for operator in restore["operators"]:
        for subtask in operator["subtasks"]:
            read += subtask["read"]
            if subtask["base"] is None:
                replayed += subtask["by_record"]
            else:
                copied += subtask["by_record"]
    label = f"{restore['shape']}: {restore_shape(restore)}"
    return label, (read, replayed, copied), f"about {duration(restore['seconds'])}"


def _formats(insight: dict[str, Any]) -> list[Block]:
    """What restoring the result takes, in the format that it has and in the other one."""
    if insight["durations"] is None or not insight["durations"]["formats"]:
        return []
    formats = insight["durations"]["formats"]
    rows: list[_Row] = [
        (
            f"{one['format']}{' (this plan)' if one['chosen'] else ''}",
            (one["read"], one["by_record"], 0),
            f"about {duration(one['seconds'])}",
        )
        for one in formats
    ]
    words = "Every subtask of the new shape finds just its own state, as records that are put one by one or as files."
    return [Figure(FORMATS, words, _bars(rows), formats_table(insight))]


def _bars(rows: Sequence[_Row]) -> StackedBars:
    most = max(sum(sizes) for _, sizes, _ in rows) or 1
    bars = tuple(
        StackedBar(
            label,
            tuple(
                Part(kind, size / most, f"{_LEGEND[kind]}: {human_bytes(size)}")
                for kind, size in enumerate(sizes)
                if size
            ),
            total,
        )
        for label, sizes, total in rows
    )
    used = max((kind for _, sizes, _ in rows for kind, size in enumerate(sizes) if size), default=0)
    return StackedBars(bars, _LEGEND[: used + 1])


def _steps(insight: dict[str, Any], took: dict[str, float]) -> list[Block]:
    if insight["durations"] is None:
        return []
    steps = insight["durations"]["steps"]
    most = max([1.0, *(step["seconds"] for step in steps), *took.values()])
    bars, rows = [], []
    for step in steps:
        name, real = step["step"], took.get(step["step"])
        bars.append(_step_bar(0, f"{name}: estimated", step["seconds"], most))
        if real is not None:
            bars.append(_step_bar(1, f"{name}: took", real, most))
        rows.append((name, duration(step["seconds"]), duration(real) if real is not None else ""))
    drawn = StackedBars(tuple(bars), ("estimated", "took")[: 2 if took else 1])
    words = "The steps of the run, estimated for Spark on two cores" + (", and what they took." if took else ".")
    return [Figure("Time by step", words, drawn, table(("step", "estimated", "took"), rows))]


def _step_bar(kind: int, label: str, seconds: float, most: float) -> StackedBar:
    return StackedBar(label, (Part(kind, seconds / most, duration(seconds)),), duration(seconds))
