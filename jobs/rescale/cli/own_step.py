"""Steps of a command, in a process of their own, whose document nobody else needs."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rescale.process import Step, run_step


def run_reading_step(step: Step, words: Sequence[str], arguments: argparse.Namespace) -> dict[str, Any]:
    """The document of a step that reads all state and writes nothing; it is given the prefixes of the command line."""
    prefixes = [word for prefix in arguments.allow_prefix for word in ("--allow-prefix", prefix)]
    return run_own_step(step, [*words, *prefixes], arguments.master)


def run_own_step(step: Step, words: Sequence[str], master: str) -> dict[str, Any]:
    """The result document of a step that is given `words` and Spark's master."""
    with tempfile.TemporaryDirectory() as directory:
        return run_step(step, str(Path(directory, "result.json")), [*words, "--master", master])
