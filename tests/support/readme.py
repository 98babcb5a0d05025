"""Promises of the project's READMEs, for the tests that check them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMANDS, DAGS = ROOT / "jobs" / "README.md", ROOT / "dags" / "README.md"
PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    COMMANDS,
    DAGS,
    ROOT / "charts" / "rescale" / "README.md",
    ROOT / "tests" / "README.md",
)


def fields(command: str) -> set[str]:
    """The fields of the JSON document that a command answers with."""
    (row,) = re.findall(rf"^\| `?{command}`? \|(.*)\|$", COMMANDS.read_text(encoding="utf-8"), re.MULTILINE)
    return set(re.findall("`([a-z0-9_]+)`", row))
