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
    """Return the text without line breaks and, unless it has code spans, with bars escaped: both would end the cell."""
    return " ".join(text.split()).replace("|", "&#124;") if "`" not in text else " ".join(text.split())
