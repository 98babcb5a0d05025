"""The text that an approver reads: verdict, warnings and costs of a plan, then its largest operators."""

from __future__ import annotations

from rescale.report.documents import PlanDocument
from rescale.report.page import Block, Bullets, Page, Strong, list_section, paragraph, table
from rescale.report.pages.declared import DECLARED, declared_lines
from rescale.report.pages.insights import duration_sentences
from rescale.report.pages.planned import OPERATOR_HEADERS, operator_row
from rescale.report.renderers.markdown import render_markdown
from rescale.report.shortening import state_bytes
from rescale.text.units import counted, human_bytes

END_OF_QUESTION = "\n\n---\n\n"
"""Separator between the question and the whole plan, on the same page."""

_MOST_OPERATORS = 5
"""Number of operators that are shown; few, because Airflow's buttons are below them."""


def question_markdown(document: PlanDocument) -> str:
    """Return the question about a plan; `document` is the plan document that the log shows, too."""
    warnings, operators = document.warnings, document.operators
    largest_operators = sorted(operators, key=lambda operator: -state_bytes(operator))[:_MOST_OPERATORS]
    verdict = f"Can be done, with {counted(len(warnings), 'warning')}." if warnings else "Can be done: no warning."
    cost_phrases = [f"{human_bytes(document.bytes_moved)} to write", *duration_sentences(document.insight)]
    blocks: list[Block] = [paragraph((Strong(verdict),)), *([Bullets("", tuple(warnings))] if warnings else [])]
    blocks += list_section(DECLARED, declared_lines(document.surgery))
    blocks += [*list_section("Costs", cost_phrases), table(OPERATOR_HEADERS, map(operator_row, largest_operators))]
    if len(operators) > _MOST_OPERATORS:
        blocks.append(paragraph(f"and {counted(len(operators) - _MOST_OPERATORS, 'smaller operator')}"))
    return render_markdown(Page(tuple(blocks)))
