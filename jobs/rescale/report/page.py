"""A page as values: its content, not its looks. Renderers turn it into text, Markdown and HTML.

A page holds plain text. A renderer escapes the characters that are special in its format, so that the name of an
operator never becomes markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rescale.report.figures import DrawnFigure


@dataclass(frozen=True)
class Strong:
    """Emphasized text."""

    text: str


@dataclass(frozen=True)
class Code:
    """A path, a name or an option, which readers may want to copy."""

    text: str


Line = str | Strong | Code | tuple["str | Strong | Code", ...]
"""Content of one line."""


@dataclass(frozen=True)
class Paragraph:
    """Lines, with a line break between them."""

    lines: tuple[Line, ...]


@dataclass(frozen=True)
class WarningBlock:
    sentence: str


@dataclass(frozen=True)
class Bullets:
    """A list of items below a `lead`, which may be empty."""

    lead: Line
    items: tuple[Line, ...]


@dataclass(frozen=True)
class Command:
    """A command for a shell."""

    line: str


@dataclass(frozen=True)
class Table:
    """A table; every row has one cell for each header."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Figure:
    """A picture with a caption, and the table of its `numbers`; `rows_text` names the rows, such as `subtasks`."""

    title: str
    caption: str
    drawing: DrawnFigure
    numbers: Table
    rows_text: str = ""


class RunProgress(StrEnum):
    """How far a run has come, which the verdict of its page shows."""

    SEEN = "snapshot"
    PLANNED = "planned"
    PROVEN = "proven"
    REFUSED = "refused"


@dataclass(frozen=True)
class Verdict:
    """The first line of a page: the progress of a run, and its result so far."""

    progress: RunProgress
    sentence: str


@dataclass(frozen=True)
class Section:
    """Blocks under a title."""

    title: str
    blocks: tuple[Block, ...]


Block = Paragraph | WarningBlock | Bullets | Command | Table | Figure | Verdict | Section


@dataclass(frozen=True)
class Page:
    """A page with its blocks from top to bottom."""

    blocks: tuple[Block, ...]
    title: str = ""


def paragraph(*lines: Line) -> Paragraph:
    return Paragraph(lines)


def paragraphs(sentences: Iterable[str]) -> list[Paragraph]:
    return [Paragraph((sentence,)) for sentence in sentences]


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Return a table; cells are converted to strings."""
    return Table(tuple(headers), tuple(tuple(map(str, row)) for row in rows))


def list_section(title: str, items: Iterable[Line]) -> list[Section]:
    """Return a section with a list of the items; no section without items."""
    entries = tuple(items)
    return [Section(title, (Bullets("", entries),))] if entries else []


def table_section(title: str, table: Table) -> list[Section]:
    """Return a section with the table; no section without rows."""
    return [Section(title, (table,))] if table.rows else []
