"""Blocks of a page as HTML: headings, tables, and text that never becomes markup."""

from __future__ import annotations

import re
from itertools import product

import pytest
from htpy import div

from rescale.report.figures import Part, StackedBar, StackedBars
from rescale.report.html.blocks import blocks
from rescale.report.page import (
    Block,
    Bullets,
    Code,
    Command,
    Figure,
    RunProgress,
    Section,
    Strong,
    Verdict,
    WarningBlock,
    paragraph,
    table,
)

EVIL = '<script>alert("1")</script> & "more"'


def html(*content: Block, level: int = 2) -> str:
    return str(div[blocks(content, level)])


def figure(*rows: tuple[str, int]) -> Figure:
    bars = StackedBars((StackedBar(EVIL, (Part(0, 1, EVIL),), EVIL),), (EVIL,))
    return Figure("Bytes", EVIL, bars, table(("state", "bytes"), rows))


def test_no_text_becomes_markup() -> None:
    page = html(
        paragraph(EVIL, (Strong(EVIL), Code(EVIL))),
        Bullets(EVIL, (EVIL,)),
        Section(EVIL, (table((EVIL,), [(EVIL,)]),)),
        WarningBlock(EVIL),
        Command(EVIL),
        Verdict(RunProgress.PLANNED, EVIL),
        figure((EVIL, 1)),
    )
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(&#34;1&#34;)&lt;/script&gt; &amp; &#34;more&#34;") > 15


def test_section_in_a_section_has_an_id_of_its_own_and_a_smaller_heading() -> None:
    inner, last = Section("Inner", ()), Section("Last", ())
    page = html(Section("First", (inner, paragraph("between"), inner)), last)
    headings = re.findall(r'<section id="(.*?)" aria-labelledby="(.*?)"><h(.) id="(.*?)">(.*?)<', page)
    assert [(section_id, level, title) for section_id, _, level, _, title in headings] == [
        ("s1", "2", "First"), ("s1-1", "3", "Inner"), ("s1-2", "3", "Inner"), ("s2", "2", "Last")
    ]  # fmt: skip
    assert all(label_id == heading_id == f"{section_id}-title" for section_id, label_id, _, heading_id, _ in headings)


def test_headings_end_at_the_sixth_level() -> None:
    assert "<h6 id=" in html(Section("Deep", ()), level=9)


@pytest.mark.parametrize(
    ("cells", "is_numeric"),
    [
        (("1", "22,000", ""), True),
        (("≈ 3.5 MB → 4 MB", "12 bytes", "0"), True),
        (("1", "a few"), False),
        (("10:30",), False),
    ],
)
def test_column_of_numbers_is_aligned_to_the_right(cells: tuple[str, ...], is_numeric: bool) -> None:
    page = html(table(("name", "value"), [("x", cell) for cell in cells]))
    assert page.count('class="number"') == (1 + len(cells) if is_numeric else 0)


def test_numbers_of_a_figure_are_folded_below_it() -> None:
    page_with_numbers, page_without_numbers = html(figure(("sum", 1))), html(figure())
    assert page_with_numbers.index("<svg") < page_with_numbers.index("<details><summary>Numbers</summary>")
    assert "<details" not in page_without_numbers


def test_every_progress_has_its_own_sign() -> None:
    signs = [re.findall('aria-hidden="true">(.)<', html(Verdict(progress, "so"))) for progress in RunProgress]
    assert all(len(sign) == 1 for sign in signs)
    assert all(a == b or signs[a] != signs[b] for a, b in product(range(len(signs)), repeat=2))
    assert f'class="verdict {RunProgress.REFUSED}"' in html(Verdict(RunProgress.REFUSED, "so"))


def test_lines_of_a_paragraph_are_broken_and_an_empty_lead_is_left_out() -> None:
    assert html(paragraph("a", "b")) == "<div><p>a<br>b</p></div>"
    assert html(Bullets("", ("a",))) == "<div><ul><li>a</li></ul></div>"
