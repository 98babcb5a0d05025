"""Results of steps, which become JSON values where a result document is written."""

from __future__ import annotations

from typing import Any

import msgspec

from rescale.report.differences import DiffDocument
from rescale.runstate.certificate import Certificate


class MovedStreams(msgspec.Struct, frozen=True):
    """Streams that a moving step wrote: the place of their handles, their number, and their bytes as planned."""

    handles: str
    streams: int
    bytes: int


class PreparedFiles(msgspec.Struct, frozen=True):
    """Files that are copied ahead, and their bytes; `new_files` and `new_bytes` are those that this step has copied."""

    files: int
    bytes: int
    new_files: int
    new_bytes: int


StepResult = MovedStreams | PreparedFiles | Certificate | DiffDocument | None
"""Result of a step; None for a process that carries out several steps, each with a result document of its own."""


def values_of(result: StepResult) -> dict[str, Any]:
    """Return a result as JSON values, the fields of the result document of the step."""
    if result is None:
        return {}
    values: dict[str, Any] = result.document() if isinstance(result, Certificate) else msgspec.to_builtins(result)
    return values
