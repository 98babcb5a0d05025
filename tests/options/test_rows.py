"""The table of options, from which commands, forms and the chart are made."""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import rescale
from rescale.cli.main import parser
from rescale.options.follow_rows import FOLLOW_OPTIONS
from rescale.options.option import FormSection, Option
from rescale.options.rows import OPTIONS
from support.readme import ROOT

PACKAGE = Path(rescale.__file__).parent

OPTIONS_NOT_IN_CHART = {"help", "target", "master", "prepare"}
"""Options of `rescale run` that the chart sets itself, or does not need."""


@pytest.mark.parametrize("row", [*OPTIONS, *FOLLOW_OPTIONS], ids=lambda row: row.name)
def test_example_of_an_option_is_accepted_by_its_commands(row: Option) -> None:
    flag, _, value = row.example.partition(" ")
    assert flag == row.flag
    arguments_by_command = {
        "diff": ["/a", "/b"],
        "validate": ["/a", "/b"],
        "match": ["/a", "--job", "/b"],
        "report": ["/a"],
    }
    for command in row.commands:
        arguments = arguments_by_command.get(command, ["/a"] if command == "inspect" else ["/a", "--target", "/b"])
        parsed_options = parser().parse_args([command, *arguments, flag, *([value.strip("'")] if value else [])])
        assert vars(parsed_options)[row.attribute]


def test_fields_are_ordered_by_form_section() -> None:
    sections = [row.field.section for row in OPTIONS]
    assert FormSection.NOWHERE not in sections
    assert sections == sorted(sections, key=list(FormSection).index)


def test_chart_accepts_the_options_of_a_run() -> None:
    schema = json.loads((ROOT / "charts/rescale/values.schema.json").read_text(encoding="utf-8"))
    pattern = schema["properties"]["run"]["properties"]["options"]["items"]["pattern"]
    names = {name for group in re.findall(r"\((.*?)\)", pattern) for name in group.split("|")}
    (commands,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    flags = {flag for flag in commands.choices["run"]._option_string_actions if flag.startswith("--")}
    assert names == {flag.removeprefix("--") for flag in flags} - OPTIONS_NOT_IN_CHART
    assert names >= {row.name for row in OPTIONS if "run" in row.commands}


def options_in_errors() -> Iterator[str]:
    """Yield the names of options that advice mentions, and of those that errors are about."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                argument = node.args[0]
                if node.func.id in ("mention", "in_option") and isinstance(argument, ast.Constant):
                    yield str(argument.value).removeprefix("--")


def test_options_mentioned_in_advice_have_a_field() -> None:
    names = set(options_in_errors())
    assert {"max-parallelism", "drop"} <= names
    assert names <= {row.name for row in OPTIONS}
