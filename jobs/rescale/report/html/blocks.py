"""Blocks of a page as HTML elements; the library `htpy` escapes all text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import htpy as h
from htpy import Element, Node

from rescale.report.figures import BarCharts, Curve, DrawnFigure, KeyGroupMap, Matrix, Sparks, StackedBars
from rescale.report.html.charts import bar_charts, curve, sparks, stacked_bars
from rescale.report.html.key_group_map import key_group_map, matrix
from rescale.report.page import (
    Block,
    Bullets,
    Code,
    Command,
    Figure,
    Line,
    Paragraph,
    RunProgress,
    Section,
    Strong,
    Table,
    Verdict,
    WarningBlock,
)

_NUMBER = re.compile(r"(≈ )?[\d,.]+( (bytes?|[kMGTPE]?B))?( → [\d,.]+( (bytes?|[kMGTPE]?B))?)?|")

_SIGN_BY_PROGRESS = {RunProgress.SEEN: "◎", RunProgress.PLANNED: "○", RunProgress.PROVEN: "✓", RunProgress.REFUSED: "✕"}


def blocks(content: Sequence[Block], level: int, prefix: str = "") -> Iterator[Node]:
    """Yield the element of each block; headings have this `level`, and the ids of sections start with `prefix`."""
    section_count = 0
    for block in content:
        if isinstance(block, Section):
            section_count += 1
            yield _section(block, level, f"{prefix}{section_count}")
        else:
            yield _block(block, level)


def _section(section: Section, level: int, number: str) -> Element:
    section_id = f"s{number}"
    return h.section(id=section_id, aria_labelledby=f"{section_id}-title")[
        _heading(level)(id=f"{section_id}-title")[section.title],
        blocks(section.blocks, level + 1, f"{number}-"),
    ]


def _heading(level: int) -> Element:
    return (h.h1, h.h2, h.h3, h.h4, h.h5, h.h6)[min(level, 6) - 1]


def _block(block: Block, level: int) -> Node:
    match block:
        case Paragraph(lines):
            return h.p[_with_line_breaks(lines)]
        case WarningBlock(sentence):
            return h.p(class_="warned")[h.strong["Warning: "], sentence]
        case Bullets(lead, items):
            return [h.p[inline(lead)] if lead else None, h.ul[(h.li[inline(item)] for item in items)]]
        case Command(line):
            return h.pre(tabindex="0")[h.code[line]]
        case Table():
            return _table(block, "Table")
        case Figure(title, text, drawn, numbers, rows_text):
            return _figure(title, text, drawn, numbers, rows_text, level)
        case Verdict(progress, text):
            sign = h.span(class_="sign", aria_hidden="true")[_SIGN_BY_PROGRESS[progress]]
            return h.p(class_=f"verdict {progress}")[sign, h.strong[progress.capitalize()], h.span[text]]
    return None


def inline(line: Line) -> Node:
    """Return the content of a line as HTML."""
    match line:
        case tuple():
            return [inline(part) for part in line]
        case Strong(text):
            return h.strong[text]
        case Code(text):
            return h.code[text]
        case _:
            return line


def _with_line_breaks(lines: Sequence[Line]) -> Iterator[Node]:
    for i, line in enumerate(lines):
        yield h.br if i else None
        yield inline(line)


def _table(table: Table, name: str) -> Element:
    """Return a table that mouse and keyboard can scroll if it is too wide; columns of numbers are right-aligned."""
    are_numeric = [all(_NUMBER.fullmatch(row[i]) for row in table.rows) for i in range(len(table.headers))]
    css_classes = ["number" if is_numeric else None for is_numeric in are_numeric]
    return h.div(class_="scroll", tabindex="0", role="region", aria_label=name)[
        h.table[
            h.thead[
                h.tr[
                    (
                        h.th(scope="col", class_=css_class)[header]
                        for header, css_class in zip(table.headers, css_classes, strict=True)
                    )
                ]
            ],
            h.tbody[
                (
                    h.tr[(h.td(class_=css_class)[cell] for cell, css_class in zip(row, css_classes, strict=True))]
                    for row in table.rows
                )
            ],
        ]
    ]


def _figure(title: str, caption: str, drawn: DrawnFigure, numbers: Table, rows_text: str, level: int) -> Element:
    folded_numbers = (
        h.details[
            h.summary[f"Numbers: {rows_text}" if rows_text else "Numbers"],
            _table(numbers, f"{title}: {rows_text or 'numbers'}"),
        ]
        if numbers.rows
        else None
    )
    return h.figure[
        h.figcaption[_heading(level)[title], h.p[caption]],
        _drawing(drawn, f"{title}. {caption}"),
        folded_numbers,
    ]


def _drawing(drawn: DrawnFigure, caption: str) -> Element:
    match drawn:
        case KeyGroupMap():
            return key_group_map(drawn, caption)
        case Matrix():
            return matrix(drawn, caption)
        case BarCharts():
            return bar_charts(drawn)
        case Curve():
            return curve(drawn, caption)
        case StackedBars():
            return stacked_bars(drawn)
        case Sparks():
            return sparks(drawn)
