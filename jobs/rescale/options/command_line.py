"""Adds options to the parsers of commands and reads their values.

This module also makes the arguments that `validate` and `diff` pass on to the step that they start.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rescale.options.follow_rows import FOLLOW_OPTIONS
from rescale.options.option import HelpGroup, Option, OptionKind
from rescale.options.rows import OPTIONS, option
from rescale.options.text_files import read_text
from rescale.planning.request.kafka_offsets import parse_offsets
from rescale.planning.request.surgery_request import Values, surgery_from_options
from rescale.text.advice import Advice, command, mention
from rescale.text.errors import RequestError, located

OnOptionAdded = Callable[[Option, argparse.Action], None]


def options_of(command: str) -> tuple[Option, ...]:
    return tuple(row for row in (*OPTIONS, *FOLLOW_OPTIONS) if command in row.commands)


def add_options(
    parser: argparse.ArgumentParser,
    command: str,
    groups: Mapping[HelpGroup, str] | None = None,
    on_added: OnOptionAdded = lambda *_: None,
) -> None:
    """Add all options of a command to `parser`.

    `groups` maps groups of options to their descriptions in the help. `on_added` is called with each option and its new
    action.
    """
    argument_groups = {
        group: parser.add_argument_group(group, description) for group, description in (groups or {}).items()
    }
    for row in options_of(command):
        on_added(row, add_option(argument_groups.get(row.group, parser), row))


def add_option(parser: argparse._ActionsContainer, row: Option) -> argparse.Action:
    """Add an option; if it is not given, its value is [] for lines, False for a flag, and None for all other kinds."""
    if row.kind is OptionKind.LINES:
        return parser.add_argument(row.flag, metavar=row.metavar, action="append", default=[], help=row.help)
    if row.kind is OptionKind.FLAG:
        return parser.add_argument(row.flag, action="store_true", help=row.help)
    if row.kind is OptionKind.CHOICE:
        return parser.add_argument(row.flag, choices=[*row.choices], help=f"{row.help} (default: {row.default})")
    return parser.add_argument(row.flag, metavar=row.metavar, help=row.help)


def values_of(arguments: argparse.Namespace, command: str) -> Values:
    """Return the values of a command's options, with the text of files instead of their paths.

    Raises `RequestError` if a file cannot be read, or is not valid.
    """
    return {row.name: _option_value(row, vars(arguments)[row.attribute]) for row in options_of(command)}


def _option_value(row: Option, value: Any) -> Any:
    if row.kind is OptionKind.CHOICE:
        return value or row.default
    if row.kind is not OptionKind.FILE or not value:
        return value
    text = read_text(value, row.file_noun)
    if row is option("kafka-offsets"):
        _refuse_no_offsets(text, value)
    return text


def _refuse_no_offsets(text: str, path: str) -> None:
    """Raise `RequestError` if a file of Kafka offsets is invalid or empty."""
    with located(path=path):
        offsets = parse_offsets(text)
    if not offsets:
        raise RequestError(
            "the file of Kafka offsets names no partition",
            path=path,
            expected="a row of topic, partition and offset for each partition whose offset changes",
            advice=Advice(
                "leave ",
                mention("kafka-offsets"),
                " out to keep all offsets; ",
                command("inspect", "SOURCE --kafka-offsets csv"),
                " prints the current ones",
            ),
        )


class StepArguments(NamedTuple):
    """Options of a step, without those for files, and the texts of these files by flag."""

    options: list[str]
    files: dict[str, str]


def arguments_of_step(arguments: argparse.Namespace, command: str) -> StepArguments:
    """Return a command's options as arguments of the step that it starts. Raises `RequestError` if one is not valid.

    Files are passed on as texts, because a pipe can be read only once.
    """
    option_values, options = values_of(arguments, command), options_of(command)
    surgery = surgery_from_options(option_values)
    surgery.kafka.merged_renames(surgery.renames)
    text_by_flag = {
        option.flag: option_values[option.name]
        for option in options
        if option.kind is OptionKind.FILE and option_values[option.name]
    }
    return StepArguments(
        [argument for option in options for argument in _arguments_for(option, vars(arguments)[option.attribute])],
        text_by_flag,
    )


def _arguments_for(row: Option, value: Any) -> list[str]:
    if row.kind is OptionKind.LINES:
        return [f"{row.flag}={line}" for line in value]
    if row.kind is OptionKind.FLAG:
        return [row.flag] if value else []
    return [f"{row.flag}={value}"] if value and row.kind is not OptionKind.FILE else []
