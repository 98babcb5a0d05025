"""The program accepts the examples on the pages of the documentation."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import subprocess
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
    fenced_blocks = re.findall(r"^ *```(\w*)[^\n]*\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(block) for language, block in fenced_blocks if language == kind]


def commands(page: Path) -> list[list[str]]:
    """Return the arguments of each `rescale` command in the blocks without a language."""
    lines = [line for block in blocks(page, "") for line in block.replace("\\\n", " ").split("\n")]
    command_lines = [line.removeprefix("$ ") for line in lines]
    return [shlex.split(line.partition(" > ")[0])[1:] for line in command_lines if line.startswith("rescale ")]


def test_pages_show_commands() -> None:
    assert sum(len(commands(page)) for page in PAGES) > 30


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_on_pages_are_parsed(page: Path) -> None:
    for arguments in commands(page):
        if not ENDING_OPTIONS.intersection(arguments):
            assert parser().parse_args(arguments)


def test_settings_on_the_platform_page_are_valid() -> None:
    (example,) = blocks(DOCS / "how-to" / "airflow-platform.md", "yaml")
    assert msgspec.convert(yaml.safe_load(example), Settings).approval.four_eyes


def test_python_blocks_are_valid_python() -> None:
    for page in (DOCS / "how-to").glob("*.md"):
        for code in blocks(page, "python"):
            assert code.startswith("--8<--") or ast.parse(code)


def test_templates_need_no_logical_date() -> None:
    """A run has none if it was triggered with `"logical_date": null`, as on these pages, or by an asset."""
    for page in (DOCS / "how-to").glob("*.md"):
        for code in [*blocks(page, "python"), *blocks(page, "yaml")]:
            assert not re.search(r"{{ *(ds|ts|logical_date|data_interval)", code), page


def test_copied_dags_leave_the_files_of_others_alone(tmp_path: Path) -> None:
    prefix, airflow_home = tmp_path / "prefix", tmp_path / "airflow"
    shutil.copytree(ROOT / "dags", prefix / "share" / "rescale" / "dags")
    (airflow_home / "dags").mkdir(parents=True)
    (airflow_home / "dags" / ".airflowignore").write_text("drafts/*")
    (command,) = [
        line for line in "\n".join(blocks(DOCS / "how-to" / "airflow.md", "")).split("\n") if line[:3] == "cp "
    ]
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f"#!/bin/sh\necho {prefix}\n")
    python.chmod(0o755)
    environment = {"PATH": f"{python.parent}:/usr/bin:/bin", "AIRFLOW_HOME": str(airflow_home)}
    subprocess.run(["bash", "-ec", command], env=environment, check=True)
    assert (airflow_home / "dags" / ".airflowignore").read_text() == "drafts/*"
    assert {path.name for path in (airflow_home / "dags").glob("*")} == {
        ".airflowignore",
        *(path.name for path in (ROOT / "dags").glob("*.py")),
    }
