"""What the README promises, for tests of those who have to keep it."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def fields(command: str) -> set[str]:
    """The fields of the JSON document that a command answers with."""
    (row,) = re.findall(rf"^\| `?{command}`? \|(.*)\|$", README.read_text(encoding="utf-8"), re.MULTILINE)
    return set(re.findall("`([a-z0-9_]+)`", row))
