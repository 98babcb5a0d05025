"""Inputs that are kept, in a file for each subject: those that led somewhere else than others, and those that failed.

A line is an input in base64.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from pathlib import Path

_FOLDER = Path(__file__).parent / "corpus"


def kept(name: str) -> list[bytes]:
    file = _FOLDER / f"{name}.txt"
    return [b64decode(line) for line in file.read_text().splitlines()] if file.exists() else []


def keep(name: str, inputs: Iterable[bytes]) -> None:
    """These, and no others."""
    lines = sorted({b64encode(data).decode() for data in inputs}, key=lambda line: (len(line), line))
    (_FOLDER / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
