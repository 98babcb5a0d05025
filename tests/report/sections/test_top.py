"""The first sections of a report: how far a run has come, what changes, and what to look at first."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from rescale.plan.proof import Proof
from rescale.report.detail import DETAIL_LEVELS
from rescale.report.documents import PlanDocument, ReportDocument
from rescale.report.page import Bullets, Page, RunProgress, Section, Verdict, WarningBlock
from rescale.report.renderers.text import render_text
from rescale.report.sections.top import changes_section, further_notes, planned_operators, things_to_look_at, verdict
from rescale.text.errors import IntegrityError
from support.reports import plan_of_report, proven, snapshot_report

MOST_DETAIL, LEAST_DETAIL = DETAIL_LEVELS[0], DETAIL_LEVELS[-1]


@pytest.fixture(scope="module")
def plan() -> PlanDocument:
    return plan_of_report((4, 128), (6, 128))


def verdict_of(document: ReportDocument) -> Verdict:
    first_block = verdict(document)[0]
    assert isinstance(first_block, Verdict)
    return first_block


def test_verdict_tells_how_far_a_run_has_come(plan: PlanDocument) -> None:
    seen_verdict = verdict_of(snapshot_report(4, 128))
    assert seen_verdict.progress is RunProgress.SEEN
    planned_verdict = verdict_of(ReportDocument(plan=plan))
    assert planned_verdict.progress is RunProgress.PLANNED
    assert "nothing is published yet" in planned_verdict.sentence
    published_report = proven(plan)
    assert verdict_of(published_report).progress is RunProgress.PROVEN
    assert "the result is published" in verdict_of(published_report).sentence
    assert "nothing is published yet" in verdict_of(msgspec.structs.replace(published_report, published=False)).sentence


@pytest.mark.parametrize(
    ("proof", "clause"),
    [
        (Proof.RECORDS, "compared, every part of the source"),
        (Proof.FILES, "compared, by files or checksums of the store where possible, every part of the source"),
        (
            Proof.CHANGES,
            "compared, all that changed since the base; with the base's certificate, every part of the source",
        ),
    ],
)
def test_verdict_says_what_was_compared(plan: PlanDocument, proof: Proof, clause: str) -> None:
    document = proven(plan)
    assert document.certificate is not None
    certificate = replace(document.certificate, proof=proof)
    assert clause in verdict_of(msgspec.structs.replace(document, certificate=certificate)).sentence


def test_verdict_of_a_failed_run_has_the_details_of_its_error(plan: PlanDocument) -> None:
    """The verdict is that of the error, even if all records were proven before."""
    error = IntegrityError("records differ", path="/file", operator="counts", expected="1", advice="run again")
    document = msgspec.structs.replace(proven(plan), error=error.document())
    assert verdict_of(document) == Verdict(RunProgress.REFUSED, "records differ")
    text = render_text(Page(tuple(verdict(document))))
    for part in ("/file", "operator: counts", "expected: 1", "what to do: run again"):
        assert part in text
    assert "found" not in text


def test_operators_with_the_same_new_shape_are_named_together(plan: PlanDocument) -> None:
    (section,) = changes_section(plan, MOST_DETAIL)
    text = render_text(Page((section,)))
    assert "parallelism 4 → 6" in text
    labels = [operator.label for operator in plan.operators if operator.is_changed]
    assert f"{', '.join(labels[:3])} and {len(labels) - 3} more" in text
    assert plan.start is not None
    assert plan.start in text


def test_section_of_things_to_look_at_has_three_sentences_at_most(plan: PlanDocument) -> None:
    def title_and_count(*warnings: str) -> tuple[str, int]:
        insight = replace(plan.insight, shapes=(), unions=(), hand_picked_keys=(), durations=None)
        (section,) = things_to_look_at(insight, warnings)
        assert isinstance(section, Section)
        (bullets,) = section.blocks
        assert isinstance(bullets, Bullets)
        return section.title, len(bullets.items)

    assert title_and_count("a") == ("One thing to look at", 1)
    assert title_and_count("a", "a") == ("One thing to look at", 1), "a sentence is not repeated"
    assert title_and_count("a", "[kafka-x] b") == ("Two things to look at", 2)
    assert title_and_count("a", "b", "c", "[kafka-x] d", "[kafka-y] e") == ("Three things to look at", 3)


def test_small_page_lists_the_largest_operators_and_counts_the_rest() -> None:
    large_plan = plan_of_report((4, 128), (6, 128), operators=40)
    (section,) = planned_operators(large_plan, LEAST_DETAIL)
    text = render_text(Page((section,)))
    most_rows = 2 * LEAST_DETAIL.most_rows
    assert f"These are the {most_rows} largest; {len(large_plan.operators) - most_rows} smaller ones hold" in text


def test_notes_beyond_the_limit_are_counted() -> None:
    most_notes = 3 * LEAST_DETAIL.most_rows
    (section,) = further_notes(["s"] * (most_notes + 1), ["w"] * (most_notes + 2), LEAST_DETAIL)
    assert isinstance(section, Section)
    assert sum(isinstance(block, WarningBlock) for block in section.blocks) == most_notes
    assert "The commands print 3 other sentences of this kind." in render_text(Page((section,)))
    assert further_notes([], [], LEAST_DETAIL) == []
