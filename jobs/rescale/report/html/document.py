"""A page as a whole document: one file, which loads nothing, runs nothing and sends nothing.

What a browser may do is said by a Content-Security-Policy inside it: draw pictures that are in the file, use the one
style sheet with this hash, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from importlib.resources import files

import htpy as h
from htpy import Element, Node
from markupsafe import Markup

from rescale.names import printable_lines
from rescale.report.html.blocks import blocks
from rescale.report.page import Page, Section


def html_of(page: Page, data: object) -> str:
    """`data` is put into it as JSON, for programs. Signs that nobody can see are shown as Python writes them."""
    style = files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    document = str(
        h.html(lang="en")[
            h.head[
                h.meta(charset="utf-8"),
                h.meta(http_equiv="Content-Security-Policy", content=policy),
                h.meta(name="viewport", content="width=device-width, initial-scale=1"),
                h.meta(name="color-scheme", content="light dark"),
                h.meta(name="referrer", content="no-referrer"),
                h.title[page.title],
                h.style[Markup(style)],
            ],
            h.body[
                h.a(class_="skip", href="#content")["To the content"],
                h.header[h.h1[page.title]],
                _contents(page),
                h.main(id="content")[blocks(page.blocks, 2)],
                h.script(type="application/json", id="data")[Markup(_embedded(data))],
            ],
        ]
    )
    return printable_lines(document)


def _contents(page: Page) -> Element:
    return h.nav(aria_label="Contents")[h.ul[_links(page)]]


def _links(page: Page) -> Iterator[Node]:
    """To the sections, by the ids that these have."""
    titles = [block.title for block in page.blocks if isinstance(block, Section)]
    for number, title in enumerate(titles, 1):
        yield h.li[h.a(href=f"#s{number}")[title]]


def _embedded(data: object) -> str:
    """JSON in which nothing can end the element that it stands in."""
    return json.dumps(data).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
