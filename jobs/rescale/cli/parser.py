"""Parser of the command line, whose errors are `RequestError`s with a suggestion for misspelt words."""

from __future__ import annotations

import argparse
import sys
from textwrap import fill
from typing import Any, NoReturn

from rescale.options.strict_parser import StrictArgumentParser
from rescale.text.errors import RequestError
from rescale.text.names import did_you_mean


class Parser(StrictArgumentParser):
    """Parser whose errors are `RequestError`s, so that they can be printed as JSON, too.

    For a misspelt word they suggest the right one.
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._words: list[str] = []
        self._question: str | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does, but report unknown arguments as an error of the command that they belong to."""
        self._words = list(sys.argv[1:] if args is None else args)
        parsed, unknown = super().parse_known_args(self._words, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        questions = [self._question, *map(self._about_option, self._words)]
        question = next(filter(None, questions), None)
        raise RequestError(message, advice=" ".join(filter(None, [question, f"see {self.prog} --help"])))

    def _about_option(self, word: str) -> str | None:
        option = word.partition("=")[0]
        misspelt = option.startswith("--") and option not in ("--", *self._option_string_actions)
        question = did_you_mean(option, self._option_string_actions) if misspelt else None
        return f"{option}: {question}" if question else None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError:
            self._question = did_you_mean(str(value), map(str, action.choices or ()))
            raise


class Formatter(argparse.HelpFormatter):
    """Formatter that wraps paragraphs, except indented ones, which are commands to copy."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:  # noqa: ARG002
        parts = text.rstrip().split("\n\n")
        return "\n\n".join(part if part.startswith(" ") else fill(part, width) for part in parts) + "\n"
