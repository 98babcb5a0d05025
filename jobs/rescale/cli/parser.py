"""Parser of the command line, whose errors are `RequestError`s with a suggestion for misspelt words."""

from __future__ import annotations

import argparse
import sys
from textwrap import fill
from typing import Any, NoReturn

from rescale.cli.output import print_answer
from rescale.options.strict_parser import StrictArgumentParser
from rescale.text.errors import RequestError
from rescale.text.names import did_you_mean


class Parser(StrictArgumentParser):
    """Parser whose errors are `RequestError`s, so that they can be printed as JSON, too.

    For a misspelt word, they suggest a similar one.
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._arguments: list[str] = []
        self._suggestion: str | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does, but report unknown arguments as an error of the command that they belong to."""
        self._arguments = list(sys.argv[1:] if args is None else args)
        parsed, unknown = super().parse_known_args(self._arguments, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        suggestions = [self._suggestion, *map(self._suggestion_for, self._arguments), self._misplaced_option()]
        suggestion = next(filter(None, suggestions), None)
        raise RequestError(message, advice=" ".join(filter(None, [suggestion, f"see {self.prog} --help"])))

    def _print_message(self, message: str, file: Any = None) -> None:  # noqa: ARG002
        """Print the help on standard output; argparse would ignore that it cannot be written."""
        print_answer(message.removesuffix("\n"))

    def _misplaced_option(self) -> str | None:
        """Return advice if this is the parser of all commands, and the first argument is an option."""
        first_argument = next(iter(self._arguments), "")
        is_misplaced = self._subparsers is not None and first_argument.startswith("-")
        return f"write {first_argument.partition('=')[0]} after the command;" if is_misplaced else None

    def _suggestion_for(self, word: str) -> str | None:
        option = word.partition("=")[0]
        is_misspelt = option.startswith("--") and option not in ("--", *self._option_string_actions)
        suggestion = did_you_mean(option, self._option_string_actions) if is_misspelt else None
        return f"{option}: {suggestion}" if suggestion else None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError:
            self._suggestion = did_you_mean(str(value), map(str, action.choices or ()))
            raise


class Formatter(argparse.HelpFormatter):
    """Help formatter that wraps paragraphs, but not indented ones, which are commands to copy."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:  # noqa: ARG002
        parts = text.rstrip().split("\n\n")
        return "\n\n".join(part if part.startswith(" ") else fill(part, width) for part in parts) + "\n"
