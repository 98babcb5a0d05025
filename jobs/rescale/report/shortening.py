"""What of long lists a terminal or a log shows: what matters most, and a word about the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from rescale.report.page import Block, Table, paragraph, table
from rescale.report.units import counted, human_bytes

MOST_OPERATORS = 24
MOST_ROWS = 48
_MOST_LINES = 16

T = TypeVar("T")


def first(items: Sequence[T], most: int, rank: Callable[[T], Any]) -> list[T]:
    """All in their order if they are few; else those of the lowest rank, by it."""
    return list(items) if len(items) <= most else sorted(items, key=rank)[:most]


def left_out(number: int, noun: str, plural: str, *, reported: bool = True) -> list[Block]:
    """A word about so many more, if there are any; some may be `reported`."""
    return [paragraph(_sentence(counted(number, noun, plural), reported=reported))] if number > 0 else []


def state_bytes(operator: dict[str, Any]) -> int:
    """All state of an operator of an inspection or of a plan."""
    return int(operator["keyed_bytes"] + operator["operator_bytes"])


def left_operators(operators: Sequence[dict[str, Any]], shown: Sequence[dict[str, Any]]) -> list[Block]:
    """A word about those that are not shown."""
    size = human_bytes(sum(map(state_bytes, operators)) - sum(map(state_bytes, shown)))
    words = [f"more {noun} with {size} of state" for noun in ("operator", "operators")]
    return left_out(len(operators) - len(shown), words[0], words[1])


def cut_table(headers: Sequence[str], rows: Iterable[Sequence[object]], noun: str, plural: str) -> list[Block]:
    """The first rows as a table, and a word about others; nothing of no rows."""
    whole = table(headers, rows)
    shown = Table(whole.headers, whole.rows[:MOST_ROWS])
    return [*([shown] if shown.rows else []), *left_out(len(whole.rows) - MOST_ROWS, noun, plural)]


def cut_lines(lines: Sequence[str]) -> list[str]:
    """The first ones, and a word about others."""
    left = len(lines) - _MOST_LINES
    return [*lines[:_MOST_LINES], *([_sentence(counted(left, "more of these", "more of these"))] if left > 0 else [])]


def _sentence(what: str, *, reported: bool = True) -> str:
    return f"{what}: {'more in the report, ' if reported else ''}all in the JSON (--output json)"
