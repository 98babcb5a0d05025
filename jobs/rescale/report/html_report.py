"""A report as one HTML file that stays small."""

from __future__ import annotations

from typing import Any

from rescale.report.detail import DETAILS
from rescale.report.report_document import shortened
from rescale.report.report_page import report_page

LIMIT = 300_000
"""Bytes of a report, at most: it can be mailed, and opens at once."""


def html_report(document: dict[str, Any]) -> bytes:
    """With as much detail as there is room for."""
    from rescale.report.html.document import html_of  # takes a third of a second to load, and few commands need it

    page = b""
    for detail in DETAILS:
        page = html_of(report_page(document, detail), shortened(document, detail.listed)).encode()
        if len(page) < LIMIT:
            break
    return page
