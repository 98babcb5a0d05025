"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, or an empty text without rows. Cells may hold any text of one paragraph."""
    lines = [list(map(_cell, row)) for row in rows]
    if not lines:
        return ""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [list(headers), ["---"] * len(headers), *lines])


def _cell(text: str) -> str:
    """Return a text without what would end a cell: a line break, or a bar outside of a code span."""
    return " ".join(text.split()).replace("|", "&#124;") if "`" not in text else " ".join(text.split())
