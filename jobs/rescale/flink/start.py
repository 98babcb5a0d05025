"""Start of a job from a snapshot: the parallelism, and the max parallelism if it changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rescale.text.names import quoted

Shapes = Sequence[tuple[int, int]]
"""The parallelism and the max parallelism of each operator."""

MAX_PARALLELISM_OPTION = "pipeline.max-parallelism"
"""`PipelineOptions.MAX_PARALLELISM`."""

REPLAY_WARNING = (
    "if the job continued to run after the snapshot, this start takes the job back to the snapshot: it processes all "
    "later records again, and a sink that remembers checkpoint ids (such as Iceberg's) may skip commits until the job "
    "has reached these ids again"
)

CLAIM_MODE_OPTIONS = ("execution.state-recovery.claim-mode", "execution.savepoint-restore-mode")
"""Names of the option `StateRecoveryOptions.RESTORE_MODE`: since Flink 1.20, and before."""

NO_CLAIM = "NO_CLAIM"
"""`RecoveryClaimMode.NO_CLAIM`: the job never deletes the files that it was started from."""


class Start(NamedTuple):
    """Start of a job from a snapshot; if `max_parallelism` is None, the job or the snapshot determines it.

    If the snapshot `refers` to files of another snapshot, the job must not claim the snapshot: Flink would delete these
    files of the other snapshot.
    """

    snapshot: str
    parallelism: int
    max_parallelism: int | None
    refers: bool = False

    @property
    def command(self) -> str:
        """Command line that starts the job, with a placeholder for the user's jar."""
        option = "" if self.max_parallelism is None else f" -D{MAX_PARALLELISM_OPTION}={self.max_parallelism}"
        no_claim_option = " -restoreMode no_claim" if self.refers else ""
        return f"flink run -s {quoted(self.snapshot)}{no_claim_option} -p {self.parallelism}{option} <your-job.jar>"


def common_parallelism(shapes: Shapes) -> int:
    """Return the most frequent parallelism; if several are equally frequent, the largest of them.

    Operators with one subtask count only if all operators have one subtask: usually the job's code fixes their
    parallelism, as for the committer of a sink.
    """
    count_by_parallelism = Counter(parallelism for parallelism, _ in shapes if parallelism != 1)
    return max(
        count_by_parallelism, key=lambda parallelism: (count_by_parallelism[parallelism], parallelism), default=1
    )


def start_of(snapshot: str, old_shapes: Shapes, new_shapes: Shapes) -> Start:
    """Return the start of a job.

    `old_shapes` and `new_shapes` have (parallelism, max parallelism) of each operator, in the same order. The
    parallelism of the start is the most frequent new one; it applies to operators for which the job's code sets none.

    The start sets a max parallelism only if it changes and is the same for all operators, because the option applies to
    all of them (`StreamGraphGenerator`). Operators with a max parallelism of 1 do not count. Without the option, Flink
    takes each operator's max parallelism from the snapshot if the job configures none
    (`Checkpoints.loadAndValidateCheckpoint`).
    """
    has_new_max = any(maximum != old for (_, maximum), (_, old) in zip(new_shapes, old_shapes, strict=True))
    new_maxima = {maximum for _, maximum in new_shapes if maximum != 1}  # a max parallelism of 1 never changes
    return Start(
        snapshot, common_parallelism(new_shapes), new_maxima.pop() if has_new_max and len(new_maxima) == 1 else None
    )
