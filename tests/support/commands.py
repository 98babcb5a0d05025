"""Commands of the command line: their parsers, answers and exit codes."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest

from rescale.cli.main import main, parser
from support.schemas import assert_valid_answer


def commands() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command by name."""
    (action,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    return dict(action.choices)


Captured = pytest.CaptureFixture[str]


def answer(capsys: Captured, *arguments: str) -> tuple[int, Any]:
    """Return exit code and document on standard output, after validating the document by its schema."""
    code = main([*arguments, "--output", "json"])
    document = json.loads(capsys.readouterr().out)
    assert_valid_answer(document, *arguments)
    return code, document
