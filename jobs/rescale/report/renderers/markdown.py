"""Pages as GitHub's Markdown, which Airflow shows: all text is escaped, so that none of it becomes markup or HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tabulate import tabulate

from rescale.report.page import (
    Block,
    Bullets,
    Code,
    Command,
    Figure,
    Line,
    Page,
    Paragraph,
    Section,
    Strong,
    Table,
    Verdict,
    WarningBlock,
)
from rescale.text.names import printable

_MARKUP = re.compile(r"[\\`*\[\]|~]|(?<![^\W_])_|_(?![^\W_])|&(?=[#\w])")
_LINE_START = re.compile(r"^(\s*\d*)([#+>.)=-])")


def render_markdown(page: Page) -> str:
    return _render_blocks(page.blocks) + "\n"


def escaped(text: str) -> str:
    """Return the text escaped for any place in a line but its start (see `_at_line_start`)."""
    escaped_text = _MARKUP.sub(lambda sign: "&amp;" if sign[0] == "&" else f"\\{sign[0]}", printable(text))
    return escaped_text.replace("<", "&lt;")


def _render_blocks(blocks: Sequence[Block]) -> str:
    return "\n\n".join(map(_render_block, blocks))


def _render_block(block: Block) -> str:
    match block:
        case Paragraph(lines):
            return "  \n".join(map(_at_line_start, lines))
        case WarningBlock(sentence):
            return f"**warning:** {escaped(sentence)}"
        case Bullets(lead, items):
            bullet_lines = "\n".join(f"* {_at_line_start(item)}" for item in items)
            return f"{_at_line_start(lead)}\n\n{bullet_lines}" if lead else bullet_lines
        case Command(line):
            return _fenced(printable(line))
        case Table(headers, rows):
            cells = [[escaped(cell) for cell in row] for row in rows]
            return tabulate(cells, [*map(escaped, headers)], tablefmt="github", disable_numparse=True)
        case Figure(title, caption, _, numbers):
            return _render_blocks([Paragraph(((Strong(title), ". ", caption),)), *([numbers] if numbers.rows else [])])
        case Verdict(progress, sentence):
            return f"**{progress.upper()}**: {escaped(sentence)}"
        case Section(title, inner):
            return f"### {escaped(title)}\n\n{_render_blocks(inner)}"


def _at_line_start(line: Line) -> str:
    """Return a line escaped for the start of a line, where more characters are special."""
    return _LINE_START.sub(r"\1\\\2", _render_line(line))


def _render_line(line: Line) -> str:
    match line:
        case tuple():
            return "".join(map(_render_line, line))
        case Strong(text):
            return f"**{escaped(text)}**"
        case Code(text):
            return _code(printable(text))
        case _:
            return escaped(line)


def _code(text: str) -> str:
    """Return the text as code, between more backticks than any run of backticks in it has."""
    backticks = "`" * (_longest_backticks(text) + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{backticks}{space}{text}{space}{backticks}"


def _fenced(line: str) -> str:
    fence = "`" * max(3, _longest_backticks(line) + 1)
    return f"{fence}\n{line}\n{fence}"


def _longest_backticks(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
