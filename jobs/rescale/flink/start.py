"""The command that starts a job from a snapshot."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

Shapes = Sequence[tuple[int, int]]


def start_command(snapshot: str, old: Shapes, new: Shapes) -> str:
    """`flink run …` for a job whose operators have new (parallelism, max parallelism)s; the jar is the user's.

    The maximum is said where it changes: Flink adopts that of a snapshot only where it computes the job's own.
    """
    parallelism = max((parallelism for parallelism, _ in new), default=1)
    changed = [maximum for (_, maximum), (_, before) in zip(new, old, strict=True) if maximum != before]
    options = ""
    if changed:  # operators with another one than most set it themselves
        options = f" -Dpipeline.max-parallelism={max(changed, key=lambda maximum: (changed.count(maximum), maximum))}"
    return f"flink run -s {shlex.quote(snapshot)} -p {parallelism}{options} <your-job.jar>"
