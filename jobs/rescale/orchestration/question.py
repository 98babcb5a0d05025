"""What somebody reads who has to say yes or no to a plan: the verdict, warnings and costs first, then the operators."""

from __future__ import annotations

from typing import Any

from tabulate import tabulate

from rescale.report.insights import duration_sentences
from rescale.report.planned import OPERATOR_HEADERS, operator_row
from rescale.report.units import counted, human_bytes

END_OF_QUESTION = "\n\n---\n\n"
"""Stands between the question and the whole plan, on one page."""

_LARGEST = 10


def question_page(shown: dict[str, Any]) -> str:
    """Markdown of the part of a plan that an answer depends on; `shown` is the plan as its log shows it."""
    warnings, operators = shown["warnings"], shown["operators"]
    largest = sorted(operators, key=lambda one: -(one["keyed_bytes"] + one["operator_bytes"]))[:_LARGEST]
    verdict = f"Can be done, with {counted(len(warnings), 'warning')}" if warnings else "Can be done, without a warning"
    costs = " ".join([f"{human_bytes(shown['bytes_moved'])} to write.", *duration_sentences(shown["insight"])])
    blocks = [f"**{verdict}.**"]
    if warnings:
        blocks.append("\n".join(f"* {warning}" for warning in warnings))
    blocks.append(f"**Costs:** {costs}")
    rows = [[cell.replace("|", "\\|") for cell in operator_row(operator)] for operator in largest]
    blocks.append(tabulate(rows, OPERATOR_HEADERS, tablefmt="github", disable_numparse=True))
    if len(operators) > _LARGEST:
        blocks.append(f"and {counted(len(operators) - _LARGEST, 'smaller operator')}")
    return "\n\n".join(blocks)
