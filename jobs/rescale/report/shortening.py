"""Long lists, shortened for terminals and logs: the most important entries, then a note about the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from rescale.report.documents import InspectedOperator, PlannedOperator
from rescale.report.page import Block, Table, paragraph, table
from rescale.text.units import counted, human_bytes

MOST_OPERATORS = 24
MOST_ROWS = 48
_MOST_LINES = 16

T = TypeVar("T")

_Operator = InspectedOperator | PlannedOperator


def lowest(items: Sequence[T], limit: int, rank: Callable[[T], Any]) -> list[T]:
    """Return all items in order if there are at most `limit`; else the `limit` items of lowest rank, sorted by rank."""
    return list(items) if len(items) <= limit else sorted(items, key=rank)[:limit]


def note_on_rest(omitted_count: int, noun: str, plural: str, *, is_in_report: bool = True) -> list[Block]:
    """Return a note about `omitted_count` items that are not shown; nothing if there are none.

    `is_in_report` is true if the HTML report shows more of them.
    """
    text = _rest_text(counted(omitted_count, noun, plural), is_in_report=is_in_report)
    return [paragraph(text)] if omitted_count > 0 else []


def state_bytes(operator: _Operator) -> int:
    return operator.keyed_bytes + operator.operator_bytes


def note_on_other_operators(operators: Sequence[_Operator], shown_operators: Sequence[_Operator]) -> list[Block]:
    """Return a note about the operators that are not shown; nothing if all are."""
    size_text = human_bytes(sum(map(state_bytes, operators)) - sum(map(state_bytes, shown_operators)))
    rest_text = f"with {size_text} of state"
    return note_on_rest(
        len(operators) - len(shown_operators), f"more operator {rest_text}", f"more operators {rest_text}"
    )


def cut_table(headers: Sequence[str], rows: Iterable[Sequence[object]], noun: str, plural: str) -> list[Block]:
    """Return a table of the first rows and a note about the rest; no table without rows."""
    full_table = table(headers, rows)
    short_table = Table(full_table.headers, full_table.rows[:MOST_ROWS])
    return [*([short_table] if short_table.rows else []), *note_on_rest(len(full_table.rows) - MOST_ROWS, noun, plural)]


def cut_lines(lines: Sequence[str]) -> list[str]:
    """Return the first lines, then a note about the rest."""
    number_omitted = len(lines) - _MOST_LINES
    note = [_rest_text(counted(number_omitted, "more of these", "more of these"))] if number_omitted > 0 else []
    return [*lines[:_MOST_LINES], *note]


def _rest_text(what: str, *, is_in_report: bool = True) -> str:
    return f"{what}: {'more in the report, ' if is_in_report else ''}all in the JSON document"


def shortened(value: Any, most_items: int) -> Any:
    """Return a JSON value without lists of more than `most_items` items; `{"left_out": 32768}` counts the omitted ones.

    Only a list of objects keeps its first items. A list of numbers or texts, or of an object for each subtask, is
    left out whole.
    """
    if isinstance(value, dict):
        return {key: shortened(inner, most_items) for key, inner in value.items()}
    if not isinstance(value, list | tuple):
        return value
    if len(value) <= most_items:
        return [shortened(inner, most_items) for inner in value]
    keeps_first_items = isinstance(value[0], dict) and "subtask" not in value[0]
    kept_items = value[:most_items] if keeps_first_items else []
    return [*(shortened(inner, most_items) for inner in kept_items), {"left_out": len(value) - len(kept_items)}]
