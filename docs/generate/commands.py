"""The commands and their options, from the parser of the command line and the rows of options."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence

from rescale.cli.main import parser
from rescale.options.follow_rows import FOLLOW_OPTIONS
from rescale.options.option import NO_FIELD, Option
from rescale.options.rows import OPTIONS
from tables import table

_PLAIN_GROUPS = ("positional arguments", "options")
"""Titles of the groups that argparse makes itself."""


def commands_markdown() -> str:
    """Return a section for each command: what it does, how it is called, an example, its arguments."""
    root = parser()
    (commands,) = (action for action in root._actions if isinstance(action, argparse._SubParsersAction))
    summaries = {action.dest: action.help or "" for action in commands._choices_actions}
    overview = table(
        ["command", "what it does"], ([f"[`{name}`](#{name})", summaries[name]] for name in commands.choices)
    )
    return "\n\n".join([overview, *(_section(name, command) for name, command in commands.choices.items())])


def options_markdown() -> str:
    """Return a table of the options of a request: an example, what the option means, the commands, the Param."""
    return table(["option", "what it means", "commands", "Param"], map(_option_row, (*OPTIONS, *FOLLOW_OPTIONS)))


def _option_row(row: Option) -> list[str]:
    commands = ", ".join(f"[`{command}`](commands.md#{command})" for command in row.commands)
    param = f"[`{row.field.name}`](params.md)" if row.field is not NO_FIELD else ""
    return [f"`{row.example}`", _prose(_with_default(row.help, row.default if row.choices else None)), commands, param]


def _with_default(text: str, default: str | None) -> str:
    return text if default is None else f"{text} (default: {default})"


def _section(name: str, command: argparse.ArgumentParser) -> str:
    usage = re.sub(r"\s+", " ", command.format_usage()).removeprefix("usage: ").replace("[-h] ", "").strip()
    example = (command.epilog or "").partition("\n\n")[2].strip()
    parts = [f"## `{name}` {{#{name}}}", _paragraphs(command.description or ""), f"```\n{_wrapped_usage(usage)}\n```"]
    if example:
        parts += ["For example:", f"```\n{example}\n```"]
    plain_groups = [group for group in command._action_groups if group.title in _PLAIN_GROUPS]
    parts.append(_arguments([action for group in plain_groups for action in group._group_actions], command))
    for group in command._action_groups:
        if group not in plain_groups and group._group_actions:
            heading = f"**{(group.title or '').capitalize()}.** {_prose(group.description or '')}"
            parts += [heading, _arguments(group._group_actions, command)]
    return "\n\n".join(part for part in parts if part)


def _arguments(actions: Sequence[argparse.Action], command: argparse.ArgumentParser) -> str:
    rows = [_argument_row(action, command) for action in actions if action.dest != "help"]
    return table(["argument", "what it means"], rows)


def _argument_row(action: argparse.Action, command: argparse.ArgumentParser) -> list[str]:
    formatter = command._get_formatter()
    if not action.option_strings:
        syntax = formatter._format_args(action, formatter._get_default_metavar_for_positional(action))
    elif action.nargs == 0:
        syntax = ", ".join(action.option_strings)
    else:
        value = formatter._format_args(action, formatter._get_default_metavar_for_optional(action))
        syntax = f"{', '.join(action.option_strings)} {value}"
    meaning = formatter._expand_help(action) if action.help else ""
    return [f"`{syntax}`", ("**Required.** " if action.required and action.option_strings else "") + _prose(meaning)]


def _paragraphs(text: str) -> str:
    """Return the paragraphs of a description; indented ones are commands to copy."""
    return "\n\n".join(
        f"```\n{part.strip()}\n```" if part.startswith(" ") else _prose(part) for part in text.rstrip().split("\n\n")
    )


def _prose(text: str) -> str:
    """Return a text of the command line as Markdown, with options and file names as code."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(piece if piece.startswith("`") else "".join(_with_code_spans(piece)) for piece in pieces)


def _with_code_spans(text: str) -> Iterator[str]:
    for part in re.split(r"((?<![\w-])--[a-z][\w-]*|'[^']*\([^']*'|\b_metadata\b|\bTARGET\.rescale\b)", text):
        is_code = re.fullmatch(r"--[a-z][\w-]*|'[^']*\([^']*'|_metadata|TARGET\.rescale", part)
        yield f"`{part.strip(chr(39))}`" if is_code else part.replace("*", r"\*").replace("<", "&lt;")


def _wrapped_usage(usage: str, width: int = 78) -> str:
    """Return a usage on lines of at most `width` characters, broken between options."""
    lines = [""]
    for piece in re.findall(r"\[[^\[\]]*(?:\[[^\]]*\][^\[\]]*)*\]|\S+", usage):
        if len(lines[-1]) + len(piece) + 1 > width:
            lines.append("   ")
        lines[-1] = f"{lines[-1]} {piece}" if lines[-1] else piece
    return "\n".join(lines)
