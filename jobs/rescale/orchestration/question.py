"""What somebody reads who has to say yes or no to a plan: the verdict, warnings and costs first, then the operators."""

from __future__ import annotations

from typing import Any

from rescale.report.page import Block, Listed, Page, Strong, listed, paragraph, table
from rescale.report.pages.declared import DECLARED, declared_lines
from rescale.report.pages.insights import duration_sentences
from rescale.report.pages.planned import OPERATOR_HEADERS, operator_row
from rescale.report.renderers.markdown import markdown_of
from rescale.report.units import counted, human_bytes

END_OF_QUESTION = "\n\n---\n\n"
"""Stands between the question and the whole plan, on one page."""

_LARGEST = 5
"""So many operators are shown: the buttons are below them."""


def question_markdown(shown: dict[str, Any]) -> str:
    """The part of a plan that an answer depends on; `shown` is the plan as its log shows it."""
    warnings, operators = shown["warnings"], shown["operators"]
    largest = sorted(operators, key=lambda one: -(one["keyed_bytes"] + one["operator_bytes"]))[:_LARGEST]
    verdict = f"Can be done, with {counted(len(warnings), 'warning')}." if warnings else "Can be done: no warning."
    costs = [f"{human_bytes(shown['bytes_moved'])} to write", *duration_sentences(shown["insight"])]
    blocks: list[Block] = [paragraph((Strong(verdict),)), *([Listed("", tuple(warnings))] if warnings else [])]
    blocks += listed(DECLARED, declared_lines(shown["surgery"]))
    blocks += [*listed("Costs", costs), table(OPERATOR_HEADERS, map(operator_row, largest))]
    if len(operators) > _LARGEST:
        blocks.append(paragraph(f"and {counted(len(operators) - _LARGEST, 'smaller operator')}"))
    return markdown_of(Page(tuple(blocks)))
