"""What a command answers, with its exit code."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rescale.cli.main import main

Captured = pytest.CaptureFixture[str]


def answer(capsys: Captured, *words: str) -> tuple[int, Any]:
    """Exit code and the document on standard output."""
    code = main([*words, "--output", "json"])
    return code, json.loads(capsys.readouterr().out)
