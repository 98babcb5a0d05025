"""How a command answers: text for people, or one JSON document on standard output."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import msgspec

from rescale.errors import RescaleError


class Output:
    """Answers in the way that `--output` asks for; progress and remarks go to standard error."""

    def __init__(self, form: str) -> None:
        self.json = form == "json"

    def answer(self, document: dict[str, Any], text: Callable[[], str]) -> None:
        if self.json:
            self._print_json(document)
        else:
            print(text())

    def error(self, error: RescaleError) -> None:
        if self.json:
            self._print_json(error.to_json())
        print(f"error: {error}", file=sys.stderr)

    def say(self, what: str) -> None:
        print(what, file=sys.stderr, flush=True)

    @staticmethod
    def _print_json(document: dict[str, Any]) -> None:
        print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
