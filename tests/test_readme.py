"""What the README points at is there, and what users can set is in it."""

from __future__ import annotations

import re
from pathlib import Path

from support.readme import README

ROOT = README.parent
TEXT = README.read_text(encoding="utf-8")
MARK = "RESCALE_DEMO_PROCESS"
"""Nobody sets it."""


def anchors(text: str) -> set[str]:
    """Of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", TEXT)
    assert len(links) > 20
    for file, anchor in links:
        assert (ROOT / file).exists(), file
        if anchor:
            text = TEXT if not file else (ROOT / file).read_text(encoding="utf-8")
            assert anchor in anchors(text), (file, anchor)


def test_variables_are_told() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "jobs").rglob("*.py"))
    variables = set(re.findall(r'"(RESCALE_\w+)"', code)) - {MARK}
    assert len(variables) > 3
    told = TEXT + (ROOT / "charts" / "rescale" / "README.md").read_text(encoding="utf-8")
    assert not [variable for variable in variables if variable not in told]


def test_snapshots_of_examples_are_there() -> None:
    places = set(re.findall(r"tests/fixtures/\S+/snapshot", TEXT))
    assert places
    assert all(Path(ROOT, place, "_metadata").exists() for place in places)
