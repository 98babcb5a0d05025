"""A plan for its approver: totals, the largest operators, Kafka offsets, and all warnings."""

from __future__ import annotations

from rescale.flink.start import RAN_ON
from rescale.report.documents import PlanDocument
from rescale.report.page import Block, Code, Command, Listed, Page, Section, Strong, listed, paragraph, table, tabled
from rescale.report.pages.cluster_costs import cluster_blocks
from rescale.report.pages.declared import DECLARED, declared_lines
from rescale.report.pages.insights import FORMATS, RESTORES, formats_table, restores_table, sentences
from rescale.report.pages.kafka import kafka_line
from rescale.report.pages.planned import OPERATOR_HEADERS, operator_row, work_lines
from rescale.report.renderers.markdown import render_markdown
from rescale.report.shortening import cut_lines, state_bytes
from rescale.text.units import counted, human_bytes, when

_LARGEST = 10

_EVENNESS = "worst ÷ mean: the keyed state of the fullest subtask as a multiple of the mean, before → after"


def plan_markdown(document: PlanDocument) -> str:
    """Return the page for the approval of a plan, as Markdown."""
    return render_markdown(approval_page(document))


def approval_page(document: PlanDocument) -> Page:
    """Return the page for the approver of a plan."""
    operators = sorted(document.operators, key=state_bytes, reverse=True)
    changed = sum(operator.is_changed for operator in operators)
    title = f"The {_LARGEST} largest operators" if len(operators) > _LARGEST else "Operators"
    shown: list[Block] = [table(OPERATOR_HEADERS, map(operator_row, operators[:_LARGEST]))]
    if meanings := work_lines(document):
        shown.append(Listed("", (*meanings, _EVENNESS)))
    blocks: list[Block] = [
        paragraph(
            (
                Strong(human_bytes(document.bytes_moved)),
                f" of state in {counted(len(operators), 'operator')} are moved, {changed} of them to a new shape.",
            )
        ),
        Listed(
            "",
            (
                ("from ", Code(document.source), f", its _metadata written {when(document.taken)}"),
                ("to ", Code(document.target)),
                ("plan ", Code(document.plan[:8])),
            ),
        ),
        *listed(DECLARED, declared_lines(document.surgery)),
        Section(title, tuple(shown)),
        *listed("Kafka sources", cut_lines(list(map(kafka_line, document.kafka)))),
        *tabled(RESTORES, restores_table(document.insight)),
        *tabled(FORMATS, formats_table(document.insight)),
        *listed("Good to know", cut_lines(sentences(document.insight))),
        *cluster_blocks(document.cluster),
        *listed("Warnings", document.warnings),
        paragraph("Afterwards the job starts with"),
        Command(document.start or ""),
        paragraph(f"{RAN_ON[0].upper()}{RAN_ON[1:]}."),
    ]
    return Page(tuple(blocks))
