"""The report: a page of all that is known of a snapshot, a plan or a run, for somebody who wants to look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rescale.report.detail import Detail
from rescale.report.page import Block, Page, Section, paragraph
from rescale.report.pages.cluster_costs import cluster_blocks
from rescale.report.pages.insights import sentences
from rescale.report.pages.other_release import prospects_section
from rescale.report.sections.certified import proof
from rescale.report.sections.costs import costs
from rescale.report.sections.dealt_elements import operator_state
from rescale.report.sections.kafka_sources import kafka_sources
from rescale.report.sections.key_group_moves import key_group_map, moves_matrix, needs_matrix
from rescale.report.sections.keyed_operator import KeyedOperator, keyed_operators
from rescale.report.sections.loads import evenness_curve, load_charts
from rescale.report.sections.top import (
    everything_said,
    planned_operators,
    seen_operators,
    things_to_look_at,
    verdict,
    what_changes,
)
from rescale.report.units import counted, human_bytes
from rescale.storage.locations import name


def report_page(document: dict[str, Any], detail: Detail) -> Page:
    """Of a report's document (`report_document`)."""
    plan, snapshot = document["plan"], document["snapshot"]
    shown = plan if plan is not None else snapshot
    insight, warnings, operators = shown["insight"], shown["warnings"], shown["operators"]
    listing = planned_operators(plan, detail) if plan is not None else seen_operators(snapshot, detail)
    return Page(
        (
            *verdict(document),
            *things_to_look_at(insight, warnings),
            *(what_changes(plan, detail) if plan is not None else []),
            *listing,
            *_another_flink(snapshot),
            *_keyed_state(keyed_operators(operators, insight), detail),
            *operator_state(operators, detail),
            *kafka_sources(shown["kafka"], detail),
            *costs(insight, document["took"]),
            *(cluster_blocks(plan["cluster"]) if plan is not None else []),
            *(proof(document["certificate"], detail) if document["certificate"] is not None else []),
            *everything_said(sentences(insight), warnings, detail),
        ),
        _title(document),
    )


def _another_flink(snapshot: dict[str, Any] | None) -> list[Section]:
    """What it would restore, if that was asked for."""
    asked = snapshot["for_flink"] if snapshot is not None else None
    return [prospects_section(asked, snapshot["snapshot"])] if snapshot is not None and asked is not None else []


def _title(document: dict[str, Any]) -> str:
    plan = document["plan"]
    if plan is None:
        return f"Snapshot {name(document['snapshot']['snapshot'])}"
    return f"Rescale of {name(plan['source'])}"


def _keyed_state(operators: Sequence[KeyedOperator], detail: Detail) -> list[Block]:
    """The largest with all figures, more with their key groups, and a word about the rest."""
    drawn = operators[: detail.drawn]
    strips = operators[detail.drawn : detail.drawn + detail.strips]
    left = operators[len(drawn) + len(strips) :]
    blocks: list[Block] = [Section(operator.label, tuple(_figures(operator, detail))) for operator in drawn]
    few = detail._replace(parts=0, ribbons=0, rows=0)
    blocks += [Section(operator.label, (key_group_map(operator, few),)) for operator in strips]
    if left:
        size = human_bytes(sum(operator.old.total for operator in left))
        blocks.append(paragraph(f"{counted(len(left), 'smaller operator')} with {size} of keyed state are not drawn."))
    return [Section("Keyed state", tuple(blocks))] if blocks else []


def _figures(operator: KeyedOperator, detail: Detail) -> list[Block]:
    figures: list[Block] = [key_group_map(operator, detail)]
    old, new = operator.old, operator.new
    if new is not None and old.shape != new.shape and needs_matrix(old, new, detail):
        figures.append(moves_matrix(old, new, detail))
    figures += [load_charts(operator, detail), evenness_curve(new or old, detail)]
    return figures
