"""A page for people, as values: what it says, not how it looks. Renderers make text and Markdown of it.

Everything in a page is data. A renderer escapes what would mean something in its form, so that the name of an operator
never becomes markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rescale.report.figures import Drawing


@dataclass(frozen=True)
class Strong:
    """Words that matter more than those around them."""

    words: str


@dataclass(frozen=True)
class Code:
    """A path, a name, an option: words that somebody may copy."""

    words: str


Words = str | Strong | Code | tuple["str | Strong | Code", ...]
"""What stands on one line."""


@dataclass(frozen=True)
class Paragraph:
    """Some lines."""

    lines: tuple[Words, ...]


@dataclass(frozen=True)
class Warned:
    """Something that somebody has to know before going on."""

    sentence: str


@dataclass(frozen=True)
class Listed:
    """Items that belong to what the `lead` says, which may be empty."""

    lead: Words
    items: tuple[Words, ...]


@dataclass(frozen=True)
class Command:
    """What somebody types into a shell."""

    line: str


@dataclass(frozen=True)
class Table:
    """Rows of as many cells as there are headers."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Figure:
    """A picture: `words` say what is to be seen in it, and the `numbers` behind it are a table, `rows` says of what."""

    title: str
    words: str
    drawing: Drawing
    numbers: Table
    rows: str = ""


class Standing(StrEnum):
    """How far something has come."""

    SEEN = "snapshot"
    PLANNED = "planned"
    PROVEN = "proven"
    REFUSED = "refused"


@dataclass(frozen=True)
class Verdict:
    """What is above all else."""

    standing: Standing
    words: str


@dataclass(frozen=True)
class Section:
    """Blocks under a title."""

    title: str
    blocks: tuple[Block, ...]


Block = Paragraph | Warned | Listed | Command | Table | Figure | Verdict | Section


@dataclass(frozen=True)
class Page:
    """Blocks from the top to the end."""

    blocks: tuple[Block, ...]
    title: str = ""


def paragraph(*lines: Words) -> Paragraph:
    return Paragraph(lines)


def paragraphs(sentences: Iterable[str]) -> list[Paragraph]:
    """One for each sentence."""
    return [Paragraph((sentence,)) for sentence in sentences]


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """With every cell as it is printed."""
    return Table(tuple(headers), tuple(tuple(map(str, row)) for row in rows))


def listed(title: str, items: Iterable[Words]) -> list[Section]:
    """A section with a list, if there is anything to list."""
    some = tuple(items)
    return [Section(title, (Listed("", some),))] if some else []


def tabled(title: str, shown: Table) -> list[Section]:
    """A section with a table, if the table has rows."""
    return [Section(title, (shown,))] if shown.rows else []
