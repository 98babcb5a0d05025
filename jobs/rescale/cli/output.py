"""Output of a command: text, or one JSON document, on standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TypeVar

import msgspec

from rescale.cli.terminal import coloured, console, print_remark, redirect_to_devnull, shows_colours
from rescale.cli.termination import exit_code_of
from rescale.report.page import Page
from rescale.report.renderers.text import render_text
from rescale.text.error_document import ErrorDocument
from rescale.text.errors import RescaleError, StoreError
from rescale.text.names import printable_lines

D = TypeVar("D")


class Output:
    """Prints the answer of a command in the format of `--output`; progress and remarks go to standard error.

    Control characters in names are escaped, so that no terminal interprets them.
    """

    def __init__(self, output_format: str) -> None:
        self.is_json = output_format == "json"
        self._indent: int | None = 2

    def use_json_lines(self) -> None:
        """From now on, print each JSON document on a single line, errors too."""
        self._indent = None

    def answer(self, document: object, text: Callable[[], str]) -> None:
        """Print the document as JSON, or the text. Raises `StoreError` if standard output cannot take it."""
        print_answer(self._as_json(document) if self.is_json else printable_lines(text()))

    def answer_page(self, document: D, page: Callable[[D], Page]) -> None:
        """Print the document as JSON, or the text of its page."""
        self.answer(document, lambda: render_text(page(document)))

    def answer_json(self, document: object) -> None:
        """Print the document as JSON, whatever `--output` says."""
        print_answer(self._as_json(document))

    def _as_json(self, document: object) -> str:
        encoded_document = msgspec.json.encode(document)
        if self._indent is not None:
            encoded_document = msgspec.json.format(encoded_document, indent=self._indent)
        return "\n".join(
            line if line.isprintable() else _escaped(line) for line in encoded_document.decode().split("\n")
        )

    def error(self, error: RescaleError) -> None:
        if self.is_json:
            print(self._as_json(error.document()))
        if shows_colours():
            console().print(coloured(error))
            return
        print_remark(f"error: {error}")

    def report_interruption(self, interruption: KeyboardInterrupt, *, resumes: bool) -> int:
        """Report Ctrl-C or SIGTERM, and return the exit code. `resumes` says that the same command resumes the work."""
        exit_code = exit_code_of(interruption)
        what = "interrupted; the same command resumes" if resumes else "interrupted"
        if self.is_json:
            print(self._as_json(ErrorDocument(error="KeyboardInterrupt", what=what, exit_code=exit_code)))
        self.say(what)
        return exit_code

    def say(self, what: str) -> None:
        print_remark(printable_lines(what))


def print_answer(text: str) -> None:
    """Print the text on standard output. Raises `StoreError` if standard output cannot take it."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise output_error(error) from None


def output_error(error: OSError) -> StoreError:
    """Return the error for an answer that cannot be written, and discard all further output."""
    redirect_to_devnull(sys.stdout)
    return StoreError(
        "the answer cannot be written to standard output",
        found=error,
        advice="make room where standard output goes, and run the command again",
    )


def _escaped(line: str) -> str:
    """Return the same JSON with control characters escaped; they occur only in strings."""
    return "".join(character if character.isprintable() else json.dumps(character)[1:-1] for character in line)
