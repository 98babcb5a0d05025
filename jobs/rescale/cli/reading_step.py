"""Commands that read all state and write nothing: a step in a process of its own, whose document nobody else needs."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rescale.process import Step, run_step


def run_reading_step(step: Step, words: Sequence[str], arguments: argparse.Namespace) -> dict[str, Any]:
    """The result document of a step that is given `words`, and the prefixes and the master of the command line."""
    prefixes = [word for prefix in arguments.allow_prefix for word in ("--allow-prefix", prefix)]
    with tempfile.TemporaryDirectory() as directory:
        result = str(Path(directory, "result.json"))
        return run_step(step, result, [*words, *prefixes, "--master", arguments.master])
