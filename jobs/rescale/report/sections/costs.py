"""The section about costs: of Flink's own rescale, of restoring each format, and of the steps of a run."""

from __future__ import annotations

from collections.abc import Sequence

from rescale.insight.insight import Insight, JobRestore
from rescale.report.figures import Part, StackedBar, StackedBars
from rescale.report.page import Block, Figure, Section, paragraph, table
from rescale.report.pages.insights import (
    FORMATS_TITLE,
    RESTORES_TITLE,
    formats_table,
    restore_shape_text,
    restores_table,
)
from rescale.text.units import duration, human_bytes

_LEGEND = ("read", "put into the backend, record by record", "copied out of other databases, row by row")


def costs_section(insight: Insight, seconds_by_step: dict[str, float]) -> list[Block]:
    """Return the section for the insight of a plan or a snapshot; `seconds_by_step` has the ended steps."""
    blocks: list[Block] = [*_flink_restores(insight), *_result_formats(insight), *_step_times(insight, seconds_by_step)]
    if not blocks:
        return []
    note = "Times are estimates from measured rates: they tell seconds from minutes, and minutes from hours."
    return [Section("What it costs", (*blocks, paragraph(note)))]


def _flink_restores(insight: Insight) -> list[Block]:
    refusals = [paragraph(restore.refused) for restore in insight.restores if restore.refused]
    possible_restores = [restore for restore in insight.restores if restore.operators]
    if not possible_restores:
        return [*refusals]
    rows = [_restore_row(restore) for restore in possible_restores]
    figure = Figure(RESTORES_TITLE, "Bytes of all subtasks together.", _bars(rows), restores_table(insight))
    return [*refusals, figure]


_BarRow = tuple[str, tuple[int, int, int], str]


def _restore_row(restore: JobRestore) -> _BarRow:
    bytes_read = replayed_bytes = copied_bytes = 0
    for operator in restore.operators:
        for subtask in operator.subtasks:
            bytes_read += subtask.read
            if subtask.base is None:
                replayed_bytes += subtask.by_record
            else:
                copied_bytes += subtask.by_record
    label = f"{restore.shape}: {restore_shape_text(restore)}"
    return label, (bytes_read, replayed_bytes, copied_bytes), f"about {duration(restore.seconds)}"


def _result_formats(insight: Insight) -> list[Block]:
    if insight.durations is None or not insight.durations.formats:
        return []
    formats = insight.durations.formats
    rows: list[_BarRow] = [
        (
            f"{restore.format}{' (this plan)' if restore.chosen else ''}",
            (restore.read, restore.by_record, 0),
            f"about {duration(restore.seconds)}",
        )
        for restore in formats
    ]
    caption = "A new subtask reads only its own state: records, which it inserts one by one, or files, which it opens."
    return [Figure(FORMATS_TITLE, caption, _bars(rows), formats_table(insight))]


def _bars(rows: Sequence[_BarRow]) -> StackedBars:
    most_bytes = max(sum(sizes) for _, sizes, _ in rows) or 1
    bars = tuple(
        StackedBar(
            label,
            tuple(
                Part(legend_index, size / most_bytes, f"{_LEGEND[legend_index]}: {human_bytes(size)}")
                for legend_index, size in enumerate(sizes)
                if size
            ),
            total_text,
        )
        for label, sizes, total_text in rows
    )
    last_used_index = max(
        (legend_index for _, sizes, _ in rows for legend_index, size in enumerate(sizes) if size), default=0
    )
    return StackedBars(bars, _LEGEND[: last_used_index + 1])


def _step_times(insight: Insight, seconds_by_step: dict[str, float]) -> list[Block]:
    if insight.durations is None:
        return []
    steps = insight.durations.steps
    longest_seconds = max([1.0, *(step.seconds for step in steps), *seconds_by_step.values()])
    bars, rows = [], []
    for step in steps:
        name, measured_seconds = step.step, seconds_by_step.get(step.step)
        bars.append(_step_bar(0, f"{name}: estimated", step.seconds, longest_seconds))
        if measured_seconds is not None:
            bars.append(_step_bar(1, f"{name}: took", measured_seconds, longest_seconds))
        rows.append((name, duration(step.seconds), duration(measured_seconds) if measured_seconds is not None else ""))
    drawing = StackedBars(tuple(bars), ("estimated", "took")[: 2 if seconds_by_step else 1])
    caption = "The steps of the run, estimated for two cores" + (
        ", and the time they took." if seconds_by_step else "."
    )
    return [Figure("Time by step", caption, drawing, table(("step", "estimated", "took"), rows))]


def _step_bar(legend_index: int, label: str, seconds: float, longest_seconds: float) -> StackedBar:
    return StackedBar(label, (Part(legend_index, seconds / longest_seconds, duration(seconds)),), duration(seconds))
