"""How a job is started from a snapshot: with what parallelism and, where it changes, what max parallelism."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rescale.names import quoted

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
        return f"flink run -s {quoted(self.snapshot)} -p {self.parallelism}{option} <your-job.jar>"


def common_parallelism(shapes: Shapes) -> int:
    """That of most operators, or the larger one of as many; those with one subtask count only if none has more.

    Who has one subtask beside others that have more has that from the job's code, as what commits for a sink.
    """
    number = Counter(parallelism for parallelism, _ in shapes if parallelism != 1)
    return max(number, key=lambda parallelism: (number[parallelism], parallelism), default=1)


def start_of(snapshot: str, old: Shapes, new: Shapes) -> Start:
    """The start of a job whose operators have new (parallelism, max parallelism)s.

    The parallelism is for operators that have none from the job's code, so it is that of most.
    The maximum is said where it changes: Flink adopts that of a snapshot only where it computes the job's own. Where
    operators have different ones none is said, for it would be every operator's (`StreamGraphGenerator`): a job that
    configures none adopts each of them (`Checkpoints.loadAndValidateCheckpoint`).
    """
    changed = any(maximum != before for (_, maximum), (_, before) in zip(new, old, strict=True))
    maxima = {maximum for _, maximum in new if maximum != 1}  # 1: always runs with one subtask
    return Start(snapshot, common_parallelism(new), maxima.pop() if changed and len(maxima) == 1 else None)
