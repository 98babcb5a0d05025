"""A command line's parser: words that make no sense are an error of ours, which asks about what may have been meant."""

from __future__ import annotations

import argparse
import sys
from textwrap import fill
from typing import Any, NoReturn

from rescale.errors import RequestError
from rescale.given_once import GivenOnce
from rescale.names import did_you_mean


class Parser(GivenOnce):
    """A parser whose errors are `RequestError`s, so that they can be answered in JSON too.

    What is misspelt is asked about.
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._words: list[str] = []
        self._question: str | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does it, but words that are left over are an error of the command that they belong to."""
        self._words = list(sys.argv[1:] if args is None else args)
        found, unknown = super().parse_known_args(self._words, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

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
    """Fills paragraphs, but not those that are indented: nobody could copy a command that was."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:  # noqa: ARG002
        parts = text.rstrip().split("\n\n")
        return "\n\n".join(part if part.startswith(" ") else fill(part, width) for part in parts) + "\n"
