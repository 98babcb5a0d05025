"""Links of the READMEs lead somewhere, and every variable that users can set is documented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.readme import DOCS, READMES, ROOT

INTERNAL = {"RESCALE_DEMO", "RESCALE_DEMO_PROCESS", "RESCALE_TARGETS"}
"""Variables that only Rescale sets."""


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", READMES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8"))
    assert links
    for place, anchor in links:
        linked_path = page.parent / place if place else page
        assert linked_path.exists(), place
        assert not anchor or anchor in anchors(linked_path.read_text(encoding="utf-8")), (place, anchor)


def test_variables_are_documented() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "jobs").rglob("*.py"))
    variables = set(re.findall(r'"(RESCALE_\w+)"', code)) - INTERNAL
    assert len(variables) > 3
    page = (DOCS / "reference" / "variables.md").read_text(encoding="utf-8")
    assert not [variable for variable in variables if f"`{variable}`" not in page]


def test_readmes_are_short() -> None:
    """Users read the pages of the documentation; only the table of the chart's values is long."""
    lengths = {
        page: len(page.read_text(encoding="utf-8").partition("\n## Values\n")[0].split("\n")) for page in READMES
    }
    assert {page: lines for page, lines in lengths.items() if lines > 120} == {}
