"""A plan for its approver: totals, the largest operators, Kafka offsets, and all warnings."""

from __future__ import annotations

from rescale.flink.start import REPLAY_WARNING
from rescale.report.documents import PlanDocument
from rescale.report.page import (
    Block,
    Bullets,
    Code,
    Command,
    Page,
    Section,
    Strong,
    list_section,
    paragraph,
    table,
    table_section,
)
from rescale.report.pages.cluster_costs import cluster_blocks
from rescale.report.pages.declared import DECLARED, declared_lines
from rescale.report.pages.insights import FORMATS_TITLE, RESTORES_TITLE, formats_table, restores_table, sentences
from rescale.report.pages.kafka import kafka_line
from rescale.report.pages.planned import OPERATOR_HEADERS, operator_row, work_lines
from rescale.report.renderers.markdown import render_markdown
from rescale.report.shortening import cut_lines, state_bytes
from rescale.text.units import counted, human_bytes, instant_text

_MOST_OPERATORS = 10

_EVENNESS_NOTE = "worst ÷ mean: the keyed state of the fullest subtask as a multiple of the mean, before → after"


def plan_markdown(document: PlanDocument) -> str:
    return render_markdown(approval_page(document))


def approval_page(document: PlanDocument) -> Page:
    operators = sorted(document.operators, key=state_bytes, reverse=True)
    changed_count = sum(operator.is_changed for operator in operators)
    title = f"The {_MOST_OPERATORS} largest operators" if len(operators) > _MOST_OPERATORS else "Operators"
    shown_blocks: list[Block] = [table(OPERATOR_HEADERS, map(operator_row, operators[:_MOST_OPERATORS]))]
    if meanings := work_lines(document):
        shown_blocks.append(Bullets("", (*meanings, _EVENNESS_NOTE)))
    blocks: list[Block] = [
        paragraph(
            (
                Strong(human_bytes(document.bytes_moved)),
                f" of state in {counted(len(operators), 'operator')} are moved, {changed_count} of them to a new "
                "shape.",
            )
        ),
        Bullets(
            "",
            (
                ("from ", Code(document.source), f", its _metadata written {instant_text(document.taken)}"),
                ("to ", Code(document.target)),
                ("plan ", Code(document.plan[:8])),
            ),
        ),
        *list_section(DECLARED, declared_lines(document.surgery)),
        Section(title, tuple(shown_blocks)),
        *list_section("Kafka sources", cut_lines(list(map(kafka_line, document.kafka)))),
        *table_section(RESTORES_TITLE, restores_table(document.insight)),
        *table_section(FORMATS_TITLE, formats_table(document.insight)),
        *list_section("Good to know", cut_lines(sentences(document.insight))),
        *cluster_blocks(document.cluster),
        *list_section("Warnings", document.warnings),
        paragraph("Afterwards the job starts with"),
        Command(document.start or ""),
        paragraph(f"{REPLAY_WARNING[0].upper()}{REPLAY_WARNING[1:]}."),
    ]
    return Page(tuple(blocks))
