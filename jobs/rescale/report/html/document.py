"""Renders a page as one HTML file that loads no other file, runs no script and sends nothing.

Its Content-Security-Policy lets a browser load only pictures inside the file, and the style sheet whose hash it names.
"""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files

import htpy as h
from markupsafe import Markup

from rescale.report.html.blocks import blocks
from rescale.report.page import Page, Section
from rescale.text.names import printable_lines


def html_of(page: Page, data: object) -> str:
    """Return the HTML of a page, with `data` embedded as JSON for programs.

    Invisible characters are shown as Python's escapes.
    """
    style = files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    titles = [block.title for block in page.blocks if isinstance(block, Section)]
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
                h.nav(aria_label="Contents")[
                    h.ul[(h.li[h.a(href=f"#s{number}")[title]] for number, title in enumerate(titles, 1))]
                ],
                h.main(id="content")[blocks(page.blocks, 2)],
                h.script(type="application/json", id="data")[Markup(_embedded(data))],
            ],
        ]
    )
    return printable_lines(document)


def _embedded(data: object) -> str:
    """Return `data` as JSON in which nothing ends the `<script>` element around it."""
    return json.dumps(data).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
