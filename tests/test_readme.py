"""Links of the READMEs lead somewhere, and everything that users can set is in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.readme import PAGES, ROOT

MARKS = {"RESCALE_DEMO", "RESCALE_DEMO_PROCESS"}
"""Nobody sets these."""


def anchors(text: str) -> set[str]:
    """Return the anchors of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8"))
    assert links
    for place, anchor in links:
        there = page.parent / place if place else page
        assert there.exists(), place
        assert not anchor or anchor in anchors(there.read_text(encoding="utf-8")), (place, anchor)


def test_variables_are_told() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "jobs").rglob("*.py"))
    variables = set(re.findall(r'"(RESCALE_\w+)"', code)) - MARKS
    assert len(variables) > 3
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert not [variable for variable in variables if variable not in text]


def test_snapshots_of_examples_are_there() -> None:
    places = set(re.findall(r"tests/fixtures/\S+/snapshot", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert places
    assert all(Path(ROOT, place, "_metadata").exists() for place in places)
