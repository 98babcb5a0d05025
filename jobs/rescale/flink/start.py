"""The command that starts a job from a snapshot."""

from __future__ import annotations

import shlex
from collections.abc import Iterable


def start_command(snapshot: str, shapes: Iterable[tuple[int, int]]) -> str:
    """`flink run …` for a job whose operators have these (parallelism, max parallelism); the jar is the user's."""
    parallelism = max((parallelism for parallelism, _ in shapes), default=1)
    return f"flink run -s {shlex.quote(snapshot)} -p {parallelism} <your-job.jar>"
