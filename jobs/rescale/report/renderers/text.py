"""Pages as plain text, for terminals and logs."""

from __future__ import annotations

from collections.abc import Sequence

from tabulate import tabulate

from rescale.report.page import (
    Block,
    Bullets,
    Command,
    Figure,
    Line,
    Page,
    Paragraph,
    Section,
    Table,
    Verdict,
    WarningBlock,
)
from rescale.text.names import printable

_INDENT = "  "
_LONGEST_CELL = 100


def render_text(page: Page) -> str:
    """Return a page as text, with a blank line between blocks."""
    return _render_blocks(page.blocks)


def _render_blocks(blocks: Sequence[Block]) -> str:
    return "\n\n".join(map(_render_block, blocks))


def _render_block(block: Block) -> str:
    match block:
        case Paragraph(lines):
            return "\n".join(map(_render_line, lines))
        case WarningBlock(sentence):
            return f"warning: {printable(sentence)}"
        case Bullets(lead, items):
            return "\n".join(
                [*([_render_line(lead)] if lead else []), *(_INDENT + _render_line(item) for item in items)]
            )
        case Command(line):
            return _INDENT + printable(line)
        case Table(headers, rows):
            cells = [[_cut_cell(printable(cell)) for cell in row] for row in rows]
            return tabulate(cells, headers=[*map(printable, headers)], disable_numparse=True)
        case Figure(title, caption, _, numbers):
            return _render_blocks([Paragraph((f"{title}. {caption}",)), *([numbers] if numbers.rows else [])])
        case Verdict(progress, sentence):
            return f"{progress.upper()}: {printable(sentence)}"
        case Section(title, inner):
            return f"{printable(title)}\n\n{_render_blocks(inner)}"


def _cut_cell(cell: str) -> str:
    """Shorten a long cell to its two ends: SQL gives operators names of thousands of characters."""
    return cell if len(cell) <= _LONGEST_CELL else f"{cell[: _LONGEST_CELL // 2]} … {cell[-_LONGEST_CELL // 2 :]}"


def _render_line(line: Line) -> str:
    if isinstance(line, tuple):
        return "".join(map(_render_line, line))
    return printable(line if isinstance(line, str) else line.text)
