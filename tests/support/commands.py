"""Commands of `rescale`: their parsers, and runs with their documents and exit codes."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
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


def in_a_process(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process without a terminal; `variables` are further environment variables."""
    return subprocess.run(
        [sys.executable, "-m", "rescale.cli.main", *map(str, arguments)],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
