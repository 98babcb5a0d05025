"""The section about costs: lengths of its bars, and what it leaves out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rescale.insight.durations import Durations, FormatRestore, StepSeconds
from rescale.insight.flink_restore import OperatorRestore, SubtaskRestore
from rescale.insight.insight import Insight, JobRestore
from rescale.report.figures import StackedBars
from rescale.report.page import Figure, Section, paragraph
from rescale.report.sections.costs import costs_section

EMPTY_INSIGHT = Insight((), (), (), (), ())
SUBTASKS = (
    SubtaskRestore(0, (0, 63), (0,), read=400, by_record=100),
    SubtaskRestore(1, (64, 127), (0, 1), read=200, by_record=300, base=0, copied=(1,)),
)
RESTORE_AT_TWICE = JobRestore("twice", (OperatorRestore("id", "counts", 1, 2, 600, SUBTASKS),), 40)
REFUSED_RESTORE = JobRestore("half", (), 0, "Flink refuses another max parallelism")
STEPS = (StepSeconds("reshuffle", 40), StepSeconds("validate", 10))
FORMATS = (FormatRestore("canonical", 800, 800, 30, chosen=False), FormatRestore("rocksdb", 400, 0, 10, chosen=True))


def figures(insight: Insight, seconds_by_step: dict[str, float]) -> list[Figure]:
    (section,) = costs_section(insight, seconds_by_step)
    assert isinstance(section, Section)
    return [block for block in section.blocks if isinstance(block, Figure)]


def bars(figure: Figure) -> StackedBars:
    assert isinstance(figure.drawing, StackedBars)
    return figure.drawing


def lengths(figure: Figure) -> list[tuple[str, list[tuple[int, float]], str]]:
    """Return each bar's label, the kinds and lengths of its parts, and its total."""
    return [
        (bar.label, [(part.legend_index, pytest.approx(part.length)) for part in bar.parts], bar.total_text)
        for bar in bars(figure).bars
    ]


def test_insight_without_restores_and_durations_has_no_section() -> None:
    assert costs_section(EMPTY_INSIGHT, {}) == []


def test_records_put_and_rows_copied_out_of_other_databases_are_told_apart() -> None:
    (figure,) = figures(replace(EMPTY_INSIGHT, restores=(RESTORE_AT_TWICE,)), {})
    assert lengths(figure) == [("twice: 1 → 2", [(0, 0.6), (1, 0.1), (2, 0.3)], "about 40 seconds")]
    assert [part.tooltip.rpartition(": ")[2] for part in bars(figure).bars[0].parts] == [
        "600 bytes", "100 bytes", "300 bytes"
    ]  # fmt: skip
    assert len(bars(figure).legend) == 3


def test_refused_shape_is_a_sentence_without_a_bar() -> None:
    (section,) = costs_section(replace(EMPTY_INSIGHT, restores=(RESTORE_AT_TWICE, REFUSED_RESTORE)), {})
    assert isinstance(section, Section)
    assert section.blocks[0] == paragraph("Flink refuses another max parallelism")
    assert [
        bar.label
        for bar in bars(figures(replace(EMPTY_INSIGHT, restores=(RESTORE_AT_TWICE, REFUSED_RESTORE)), {})[0]).bars
    ] == ["twice: 1 → 2"]


def test_formats_have_one_scale_and_the_plans_own_is_named() -> None:
    durations = Durations(80, 10, None, (), FORMATS)
    formats, _ = figures(replace(EMPTY_INSIGHT, durations=durations), {})
    assert lengths(formats) == [
        ("canonical", [(0, 0.5), (1, 0.5)], "about 30 seconds"),
        ("rocksdb (this plan)", [(0, 0.25)], "about 10 seconds"),
    ]
    assert len(bars(formats).legend) == 2, "no row is copied out of another database"


def test_time_that_a_step_took_stands_below_its_estimate() -> None:
    durations = Durations(80, 10, None, STEPS, ())
    (figure,) = figures(replace(EMPTY_INSIGHT, durations=durations), {"reshuffle": 80.0})
    assert lengths(figure) == [
        ("reshuffle: estimated", [(0, 0.5)], "40 seconds"),
        ("reshuffle: took", [(1, 1)], "1 minute and 20 seconds"),
        ("validate: estimated", [(0, 0.125)], "10 seconds"),
    ]
    assert bars(figure).legend == ("estimated", "took")
    assert bars(figures(replace(EMPTY_INSIGHT, durations=durations), {})[0]).legend == ("estimated",)
