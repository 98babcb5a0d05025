"""How a job is started from a snapshot: with what parallelism and, where it changes, what max parallelism."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import NamedTuple

Shapes = Sequence[tuple[int, int]]

MAX_PARALLELISM_OPTION = "pipeline.max-parallelism"
"""`PipelineOptions.MAX_PARALLELISM`."""


class Start(NamedTuple):
    """A job's start from a snapshot; a `max_parallelism` of None is left to the job and the snapshot."""

    snapshot: str
    parallelism: int
    max_parallelism: int | None

    @property
    def command(self) -> str:
        """`flink run …`; the jar is the user's."""
        option = "" if self.max_parallelism is None else f" -D{MAX_PARALLELISM_OPTION}={self.max_parallelism}"
        return f"flink run -s {shlex.quote(self.snapshot)} -p {self.parallelism}{option} <your-job.jar>"


def start_of(snapshot: str, old: Shapes, new: Shapes) -> Start:
    """The start of a job whose operators have new (parallelism, max parallelism)s.

    The maximum is said where it changes: Flink adopts that of a snapshot only where it computes the job's own.
    """
    parallelism = max((parallelism for parallelism, _ in new), default=1)
    changed = [maximum for (_, maximum), (_, before) in zip(new, old, strict=True) if maximum != before]
    # Operators with another one than most set it themselves.
    most = max(changed, key=lambda maximum: (changed.count(maximum), maximum), default=None)
    return Start(snapshot, parallelism, most)
