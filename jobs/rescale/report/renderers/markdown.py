"""Pages as Markdown (GitHub's), as Airflow shows it: nothing that a page says can become markup, HTML least of all."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tabulate import tabulate

from rescale.names import printable
from rescale.report.page import (
    Block,
    Code,
    Command,
    Figure,
    Listed,
    Page,
    Paragraph,
    Section,
    Strong,
    Table,
    Verdict,
    Warned,
    Words,
)

_MARKUP = re.compile(r"[\\`*\[\]|~]|(?<![^\W_])_|_(?![^\W_])|&(?=[#\w])")
_LINE_START = re.compile(r"^(\s*\d*)([#+>.)=-])")


def markdown_of(page: Page) -> str:
    return _blocks(page.blocks) + "\n"


def escaped(words: str) -> str:
    """The words as Markdown that shows just them, wherever they stand in a line."""
    marked = _MARKUP.sub(lambda sign: "&amp;" if sign[0] == "&" else f"\\{sign[0]}", printable(words))
    return marked.replace("<", "&lt;")


def _blocks(blocks: Sequence[Block]) -> str:
    return "\n\n".join(map(_block, blocks))


def _block(block: Block) -> str:
    match block:
        case Paragraph(lines):
            return "  \n".join(map(_first, lines))
        case Warned(sentence):
            return f"**warning:** {escaped(sentence)}"
        case Listed(lead, items):
            bullets = "\n".join(f"* {_first(item)}" for item in items)
            return f"{_first(lead)}\n\n{bullets}" if lead else bullets
        case Command(line):
            return _fenced(printable(line))
        case Table(headers, rows):
            cells = [[escaped(cell) for cell in row] for row in rows]
            return tabulate(cells, [*map(escaped, headers)], tablefmt="github", disable_numparse=True)
        case Figure(title, words, _, numbers):
            return _blocks([Paragraph(((Strong(title), ". ", words),)), *([numbers] if numbers.rows else [])])
        case Verdict(standing, words):
            return f"**{standing.upper()}**: {escaped(words)}"
        case Section(title, inner):
            return f"### {escaped(title)}\n\n{_blocks(inner)}"


def _first(words: Words) -> str:
    """At the beginning of a line, where more signs mean something."""
    return _LINE_START.sub(r"\1\\\2", _line(words))


def _line(words: Words) -> str:
    match words:
        case tuple():
            return "".join(map(_line, words))
        case Strong(some):
            return f"**{escaped(some)}**"
        case Code(some):
            return _code(printable(some))
        case _:
            return escaped(words)


def _code(words: str) -> str:
    """In more backticks than it has itself side by side."""
    ticks = "`" * (_longest_ticks(words) + 1)
    space = " " if words.startswith("`") or words.endswith("`") else ""
    return f"{ticks}{space}{words}{space}{ticks}"


def _fenced(line: str) -> str:
    fence = "`" * max(3, _longest_ticks(line) + 1)
    return f"{fence}\n{line}\n{fence}"


def _longest_ticks(words: str) -> int:
    return max(map(len, re.findall("`+", words)), default=0)
