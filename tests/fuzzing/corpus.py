"""Kept inputs, in one file for each subject: inputs that covered new code when they were kept, and inputs that failed.

A line is an input in base64.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from pathlib import Path

_MOST_KEPT_INPUTS = 24
_LARGEST_KEPT_BYTES = 600
_MOST_KEPT_BYTES = 8 * 1024
_FOLDER = Path(__file__).parent / "corpus"


def kept_inputs(name: str) -> list[bytes]:
    file = _FOLDER / f"{name}.txt"
    return [b64decode(line) for line in file.read_text().splitlines()] if file.exists() else []


def replace_kept_inputs(name: str, inputs: Iterable[bytes]) -> None:
    """Replace the kept inputs of the subject `name` by `inputs`."""
    lines = sorted({b64encode(data).decode() for data in inputs}, key=lambda line: (len(line), line))
    (_FOLDER / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))


def inputs_worth_keeping(inputs: Iterable[bytes], valid_length: int) -> list[bytes]:
    """Return a few of the inputs, from short to long ones, with few bytes in total (`_MOST_KEPT_BYTES`).

    Inputs of more than `_LARGEST_KEPT_BYTES` bytes are left out, unless they are at most a quarter longer than
    `valid_length`, the length of a small valid input. Such inputs are needed because much shorter ones are refused
    early.
    """
    small_inputs = sorted(
        (data for data in inputs if len(data) <= max(_LARGEST_KEPT_BYTES, valid_length * 5 // 4)), key=len
    )
    chosen = small_inputs[:: -(-len(small_inputs) // _MOST_KEPT_INPUTS) or 1]
    while sum(map(len, chosen)) > _MOST_KEPT_BYTES and len(chosen) > 1:
        chosen = chosen[1::2]
    return chosen
