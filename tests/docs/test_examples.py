"""The program accepts the examples on the pages of the documentation."""

from __future__ import annotations

import ast
import re
import shlex
import textwrap
from pathlib import Path

import msgspec
import pytest
import yaml

from rescale.airflow.settings import Settings
from rescale.cli.main import parser
from support.readme import DOCS, READMES, ROOT

PAGES = [*sorted(DOCS.rglob("*.md")), *READMES]

ENDING_OPTIONS = {"--version"}
"""Options that end the program when they are parsed."""


def blocks(page: Path, kind: str) -> list[str]:
    """Return the fenced blocks of a kind on a page, without their indentation."""
    text = page.read_text(encoding="utf-8")
    fenced = re.findall(r"^ *```(\w*)[^\n]*\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(block) for language, block in fenced if language == kind]


def commands(page: Path) -> list[list[str]]:
    """Return the arguments of each `rescale` command in the blocks without a language."""
    lines = [line for block in blocks(page, "") for line in block.replace("\\\n", " ").split("\n")]
    shown = [line.removeprefix("$ ") for line in lines]
    return [shlex.split(line.partition(" > ")[0])[1:] for line in shown if line.startswith("rescale ")]


def test_pages_show_commands() -> None:
    assert sum(len(commands(page)) for page in PAGES) > 30


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_are_parsed(page: Path) -> None:
    for arguments in commands(page):
        if not ENDING_OPTIONS.intersection(arguments):
            assert parser().parse_args(arguments)


def test_settings_are_valid() -> None:
    (example,) = blocks(DOCS / "how-to" / "airflow-platform.md", "yaml")
    assert msgspec.convert(yaml.safe_load(example), Settings).approval.four_eyes


def test_code_is_python() -> None:
    for page in (DOCS / "how-to").glob("*.md"):
        for code in blocks(page, "python"):
            assert code.startswith("--8<--") or ast.parse(code)
