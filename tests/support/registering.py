"""Distributions that register serializers: the example of the documentation, and handmade ones."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rescale.flink.serializers.registry import ENTRY_POINT_GROUP, registered_rows
from support.readme import DOCS

MONEY = "com.example.MoneySerializer$MoneySnapshot"
VALUES = "    values=Sequence((Fixed(8, FixedHash.LONG), Text())),"
"""The line of the example that defines the tree of its values."""


def example() -> tuple[str, str]:
    """Return the module and the `pyproject.toml` of the documentation's example."""
    text = (DOCS / "how-to" / "serializers.md").read_text(encoding="utf-8")
    module, project = (re.findall(rf"^```{kind}\n(.*?)^```", text, re.M | re.S)[0] for kind in ("python", "toml"))
    return module, project


def install(folder: Path, points: dict[str, str], code: str, name: str = "money", version: str = "1.0") -> None:
    """Write a distribution with a module and entry points, as an installer does."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(code)
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [f"{point} = {value}" for point, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{ENTRY_POINT_GROUP}]", *lines, ""]))


@pytest.fixture(autouse=True)
def nothing_stays_registered() -> Iterator[None]:
    """Remove the serializers that a test has registered."""
    registered_rows.cache_clear()
    yield
    registered_rows.cache_clear()
    sys.modules.pop("money", None)


def find(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Let this process find the distributions in a folder."""
    patch.syspath_prepend(folder)
    registered_rows.cache_clear()
