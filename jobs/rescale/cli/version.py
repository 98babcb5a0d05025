"""`rescale --version`: the version of the distribution; in a checkout, with the commit."""

from __future__ import annotations

import argparse
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rescale.cli.output import print_answer

DISTRIBUTION = "flink-rescale"
_CHECKOUT = Path(__file__).parents[3]
"""Directory with the folder `jobs`, if the package is imported from a checkout."""


class ShowVersion(argparse.Action):
    """Action that prints the version and exits. Only this action runs Git."""

    def __init__(self, option_strings: list[str], dest: str, help: str) -> None:  # noqa: A002, ARG002
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print_answer(version_text())
        parser.exit()


def version_text(checkout: Path = _CHECKOUT) -> str:
    """Return `rescale 0.1.0`, or `rescale 0.1.0 (commit 1a2b3c4d)` if `checkout` is the root of a Git checkout."""
    commit = _git_commit(checkout) if (checkout / ".git").exists() else None
    return f"rescale {version(DISTRIBUTION)}{f' (commit {commit})' if commit else ''}"


def _git_commit(checkout: Path) -> str | None:
    """Return the commit of a checkout, None without Git."""
    try:
        git_process = subprocess.run(
            ["git", "-C", str(checkout), "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return git_process.stdout.strip() or None
