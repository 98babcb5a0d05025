"""The page of a report: all that is known about a snapshot, a plan or a run."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rescale.report.detail import DETAIL_LEVELS, DetailLevel
from rescale.report.documents import PlanDocument, ReportDocument
from rescale.report.page import Block, Page, Section, paragraph
from rescale.report.pages.cluster_costs import cluster_blocks
from rescale.report.pages.insights import sentences
from rescale.report.pages.other_release import prospects_section
from rescale.report.pages.rounds import rounds_section
from rescale.report.sections.certified import certificate_section
from rescale.report.sections.costs import costs_section
from rescale.report.sections.dealt_elements import operator_state_section
from rescale.report.sections.kafka_sources import kafka_section
from rescale.report.sections.key_group_moves import key_group_map, moves_matrix, needs_matrix
from rescale.report.sections.keyed_operator import KeyedOperator, keyed_operators
from rescale.report.sections.loads import evenness_curve, load_charts
from rescale.report.sections.top import (
    changes_section,
    further_notes,
    inspected_operators,
    planned_operators,
    things_to_look_at,
    verdict,
)
from rescale.report.shortening import shortened
from rescale.storage.locations import name
from rescale.text.units import counted, human_bytes

LARGEST_REPORT_BYTES = 300_000
"""Largest size of a report in bytes: it fits into a mail and opens at once."""


def html_report(document: ReportDocument) -> bytes:
    """Return the report as one HTML file, with as much detail as `LARGEST_REPORT_BYTES` allows.

    If even the page with the least detail is larger, return that page.
    """
    from rescale.report.html.document import html_of  # loads slowly, and few commands need it

    page = b""
    for detail in DETAIL_LEVELS:
        page = html_of(
            report_page(document, detail), shortened(msgspec.to_builtins(document), detail.most_list_items)
        ).encode()
        if len(page) < LARGEST_REPORT_BYTES:
            break
    return page


def report_page(document: ReportDocument, detail: DetailLevel) -> Page:
    """Return the page of a report, with as much detail as `detail` allows."""
    plan, snapshot = document.plan, document.snapshot
    subject = plan or snapshot
    if subject is None:
        raise ValueError("a report is about a snapshot or a plan")
    insight, warnings, operators = subject.insight, subject.warnings, subject.operators
    for_flink = None if snapshot is None else snapshot.for_flink
    listing = (
        planned_operators(subject, detail)
        if isinstance(subject, PlanDocument)
        else inspected_operators(subject, detail)
    )
    return Page(
        (
            *verdict(document),
            *things_to_look_at(insight, warnings),
            *(changes_section(plan, detail) if plan is not None else []),
            *listing,
            *([prospects_section(for_flink, snapshot.snapshot)] if snapshot and for_flink else []),
            *_keyed_state_blocks(keyed_operators(operators, insight), detail),
            *operator_state_section(operators, detail),
            *kafka_section(subject.kafka, detail),
            *(rounds_section(plan.rounds) if plan is not None else []),
            *costs_section(insight, document.took),
            *(cluster_blocks(plan.cluster) if plan is not None else []),
            *(certificate_section(document.certificate, detail) if document.certificate is not None else []),
            *further_notes(sentences(insight), warnings, detail),
        ),
        _title(document),
    )


def _title(document: ReportDocument) -> str:
    if document.plan is not None:
        return f"Rescale of {name(document.plan.source)}"
    return f"Snapshot {name(document.snapshot.snapshot)}" if document.snapshot is not None else ""


def _keyed_state_blocks(operators: Sequence[KeyedOperator], detail: DetailLevel) -> list[Block]:
    """Return all figures of the largest operators, the key groups of the next ones, and a note about the rest."""
    drawn_operators = operators[: detail.most_drawn_operators]
    strip_operators = operators[detail.most_drawn_operators : detail.most_drawn_operators + detail.most_strips]
    not_drawn = operators[len(drawn_operators) + len(strip_operators) :]
    blocks: list[Block] = [Section(operator.label, tuple(_figures(operator, detail))) for operator in drawn_operators]
    strips_only = detail._replace(most_parts=0, most_ribbons=0, most_rows=0)
    blocks += [Section(operator.label, (key_group_map(operator, strips_only),)) for operator in strip_operators]
    if not_drawn:
        size_text = human_bytes(sum(operator.old.total for operator in not_drawn))
        blocks.append(
            paragraph(f"{counted(len(not_drawn), 'smaller operator')} with {size_text} of keyed state are not drawn.")
        )
    return [Section("Keyed state", tuple(blocks))] if blocks else []


def _figures(operator: KeyedOperator, detail: DetailLevel) -> list[Block]:
    figures: list[Block] = [key_group_map(operator, detail)]
    old, new = operator.old, operator.new
    if new is not None and old.shape != new.shape and needs_matrix(old, new, detail):
        figures.append(moves_matrix(old, new, detail))
    figures += [load_charts(operator, detail), evenness_curve(new or old, detail)]
    return figures
