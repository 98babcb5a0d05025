"""Pages as text and Markdown: no text becomes markup or a control sequence of a terminal."""

from __future__ import annotations

import pytest

from rescale.report.page import Bullets, Code, Command, Page, Section, Strong, WarningBlock, paragraph, table
from rescale.report.renderers.markdown import render_markdown
from rescale.report.renderers.text import render_text

PAGE = Page(
    (
        Bullets((Strong("2 files"), " of ", Code("/a_b")), ("one", "two")),
        Section("Numbers", (table(("a", "b"), [(1, "x"), (22, "y")]),)),
        paragraph("one line", "another"),
        WarningBlock("look out"),
        Command("flink run"),
    )
)

EVIL = "<script>alert(1)</script> **b** _i_ a_b `c` [d](e) |f| &lt; \x1b[31mred\n# g"


def test_page_is_rendered_as_text() -> None:
    assert render_text(PAGE) == (
        "2 files of /a_b\n  one\n  two\n\n"
        "Numbers\n\na    b\n---  ---\n1    x\n22   y\n\n"
        "one line\nanother\n\n"
        "warning: look out\n\n"
        "  flink run"
    )


def test_long_cell_is_cut_in_the_middle() -> None:
    name = "Calc[" + 400 * "x" + "] (08405ac2a6c18bd2f4e6f92d131bb551)"
    lines = render_text(Page((table(("operator", "bytes"), [(name, 1), ("y" * 100, 2)]),))).split("\n")
    assert [line.rstrip() for line in lines[2:]] == [
        f"Calc[{45 * 'x'} … {14 * 'x'}] (08405ac2a6c18bd2f4e6f92d131bb551)  1",
        f"{100 * 'y'}     2",
    ]


def test_page_is_rendered_as_markdown() -> None:
    assert render_markdown(PAGE) == (
        "**2 files** of `/a_b`\n\n* one\n* two\n\n"
        "### Numbers\n\n| a   | b   |\n|-----|-----|\n| 1   | x   |\n| 22  | y   |\n\n"
        "one line  \nanother\n\n"
        "**warning:** look out\n\n"
        "```\nflink run\n```\n"
    )


def page_full_of(text: str) -> Page:
    """Return a page that has the text in every place of every block."""
    return Page(
        (
            paragraph(text, (Strong(text), Code(text))),
            Bullets(text, (text,)),
            Section(text, (table((text,), [(text,)]),)),
            WarningBlock(text),
            Command(text),
        )
    )


def test_text_has_no_control_characters_for_a_terminal() -> None:
    text = render_text(page_full_of(EVIL))
    assert text.count("<script>alert(1)</script>") == 10
    assert all(sign.isprintable() or sign == "\n" for sign in text)
    assert text.count("\\x1b[31mred\\n# g") == 10


def test_markdown_escapes_markup() -> None:
    lines = render_markdown(page_full_of(EVIL)).splitlines()
    markup_lines = [line for line in lines if "alert" in line]
    assert len(markup_lines) == 9
    fenced_line = markup_lines.pop()
    assert fenced_line.startswith("<script>")
    code_start = markup_lines[1].index("`<script>")
    assert all("<" not in line for line in (*markup_lines[:1], markup_lines[1][:code_start], *markup_lines[2:]))
    assert markup_lines[0].startswith(
        r"&lt;script>alert(1)&lt;/script> \*\*b\*\* \_i\_ a_b \`c\` \[d\](e) \|f\| &amp;lt; "
    )
    assert markup_lines[1].endswith("``" + render_text(Page((paragraph(EVIL),))) + "``")


@pytest.mark.parametrize(("text", "escaped"), [("# a", r"\# a"), ("1. a", r"1\. a"), ("- a", r"\- a"), ("1 a", "1 a")])
def test_escaped_line_begins_no_heading_and_no_list(text: str, escaped: str) -> None:
    assert render_markdown(Page((paragraph(text),))) == f"{escaped}\n"


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("__init__", r"\_\_init\_\_"),
        ("of ___all___", r"of \_\_\_all\_\_\_"),
        ("a__b_c", r"a\_\_b_c"),
        ("_timer_state/event_timers", r"\_timer_state/event_timers"),
    ],
)
def test_underscores_within_a_word_stay_and_others_are_escaped(text: str, escaped: str) -> None:
    assert render_markdown(Page((paragraph(text),))) == f"{escaped}\n"


def test_backticks_in_code_do_not_end_it() -> None:
    assert render_markdown(Page((paragraph(Code("a```b`")), Command("```")))) == "```` a```b` ````\n\n````\n```\n````\n"
