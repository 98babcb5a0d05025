"""A follower rescales twenty checkpoints of a job that changes its state in all possible ways, to two shapes.

Users leave and come back; values, lists and maps are cleared and written again before the next checkpoint; values and
elements of lists expire, some between two checkpoints; timers are set and deleted; a state ends and another appears.
Some checkpoints become no round. When all levels of RocksDB are taken, a round continues the base itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from oracle.cases import ROCKSDB
from oracle.harness import Flink, Job
from oracle.test_canonical import INLINE
from oracle.test_continuing import execute_with
from oracle.test_copies import INCREMENTAL
from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.following.round_plan import plan_round
from rescale.planning.request.request import make_request
from rescale.runstate.follower.rounds import RoundKind
from rescale.snapshot.reading.opening import open_snapshot
from support.diffing import diff
from support.pipeline import execute_without_spark, plan_rescale
from support.slow import slow

CHECKPOINT_COUNT = 20
TURN_WAVE = 9
"""The wave in which one state ends and another appears."""

COMPACT_OFTEN = {
    "state.backend.rocksdb.manual-compaction.min-interval": "200 ms",
    "state.backend.rocksdb.manual-compaction.min-files-to-compact": "2",
}
"""Flink compacts small files by itself, in addition to RocksDB."""


@dataclass(frozen=True)
class Chain:
    """Checkpoints at parallelism 3 of `old_max_parallelism`, rescaled to `parallelisms` of `new_max_parallelism`.

    With `scaled_out`, Flink has scaled the job out from parallelism 2 before the first checkpoint.
    """

    line: str
    old_max_parallelism: int
    new_max_parallelism: int
    configuration: dict[str, str]
    scaled_out: bool
    parallelisms: tuple[int, ...]

    @property
    def job(self) -> Job:
        parameters = {"seed": 5, "keys": 80, "turn": TURN_WAVE}
        return Job(
            "churn",
            3,
            parameters,
            max_parallelism=self.old_max_parallelism,
            configuration=self.configuration,
            **ROCKSDB,
        )

    def __str__(self) -> str:
        return f"{self.line}-{self.old_max_parallelism}to{self.new_max_parallelism}"


CHAINS = [
    slow(Chain(line, *maxima, configuration, scaled_out, parallelisms))
    for line in ("1.20", "2")
    for maxima, configuration, scaled_out, parallelisms in (
        ((128, 1000), {**INCREMENTAL, **COMPACT_OFTEN}, True, (3, 4)),
        ((1000, 128), {**INLINE, **COMPACT_OFTEN}, False, (3, 2)),
    )
]


def kinds_of_the_job() -> Iterator[str]:
    """Yield one or two waves before each checkpoint, or a pause.

    In a pause, values and elements expire, and only compactions change files.
    """
    for number in range(CHECKPOINT_COUNT):
        yield from ["pause"] if number % 7 == 3 else ["wave"] * (1 + number % 2)
        yield "checkpoint"


def checkpoints_of(chain: Chain, flink: Flink, folder: Path) -> tuple[list[Path], int]:
    """Return the checkpoints of the chain, and the number of waves before the last."""
    kinds = list(kinds_of_the_job())
    waves_before, restored, job = 0, None, chain.job
    if chain.scaled_out:
        restored = flink.snapshot(job.with_(parallelism=2), folder / "narrow", "wave", "checkpoint")
        waves_before, job = 1, job.with_(parameters={**job.parameters, "lived": 1})
    return flink.snapshots(job, folder / "source", *kinds, restored=restored), waves_before + kinds.count("wave")


def follow(chain: Chain, checkpoints: list[Path], folder: Path, parallelism: int) -> tuple[Path, list[dict[str, int]]]:
    """Make a base of the first checkpoint and rounds of later ones.

    Return the last result, and for each round the number of records by state.
    """
    base = newest_target = folder / f"{parallelism}-0"
    shape, maximum = [str(parallelism)], [str(chain.new_max_parallelism)]
    execute_without_spark(plan_rescale(str(checkpoints[0]), str(base), shape, [str(folder)], max_parallelism=maximum))
    skipped_checkpoints: list[Path] = []
    kinds, record_counts_by_round = set[RoundKind](), list[dict[str, int]]()
    for number, source in enumerate(checkpoints[1:], 1):
        if number % 4 == 2:
            skipped_checkpoints.append(source)
            continue
        target = folder / f"{parallelism}-{number}"
        request = make_request(str(source), str(target), shape, max_parallelism=maximum, allow_prefixes=[str(folder)])
        between = [open_snapshot(str(path), allow_prefixes=[str(folder)]) for path in skipped_checkpoints]
        planned_round = plan_round(request, [str(newest_target), str(base)], [between], reserved_levels=0)
        assert planned_round.kind is not RoundKind.BASE, planned_round.reason
        execute_with(planned_round.prepared.plan, planned_round.proof)
        certificate = validate_published(
            str(source), str(target), InProcessTasks(2, None), allow_prefixes=[str(folder)]
        )
        kinds.add(planned_round.kind)
        (states,) = (operator.records.states for operator in certificate.operators if operator.records is not None)
        record_counts_by_round.append({name: state.records for name, state in states.items()})
        newest_target, skipped_checkpoints = target, []
    assert kinds == {RoundKind.ROUND, RoundKind.JOINED}
    return newest_target, record_counts_by_round


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("chain", CHAINS, ids=str)
def test_long_chain_of_rounds_gives_what_a_full_run_gives(
    retaining_flink: Callable[[str], Flink], tmp_path: Path, chain: Chain
) -> None:
    flink = retaining_flink(chain.line)
    checkpoints, waves = checkpoints_of(chain, flink, tmp_path)
    last = open_snapshot(str(checkpoints[-1]), allow_prefixes=[str(tmp_path)])
    for parallelism in chain.parallelisms:
        result, record_counts_by_round = follow(chain, checkpoints, tmp_path, parallelism)
        assert "late" not in record_counts_by_round[0]
        assert "late" in record_counts_by_round[-1]
        assert "early" in record_counts_by_round[0]
        assert "early" not in record_counts_by_round[-1], "rows of a state that has ended"
        full_target = tmp_path / f"full-{parallelism}"
        maximum = [str(chain.new_max_parallelism)]
        plan = plan_rescale(
            str(checkpoints[-1]), str(full_target), [str(parallelism)], [str(tmp_path)], max_parallelism=maximum
        )
        execute_without_spark(plan)
        for other in (last, open_snapshot(str(full_target))):
            difference = diff(other, open_snapshot(str(result)))
            assert difference.equal, [state for op in difference.operators for state in op.states if not state.equal]
        job_after_waves = chain.job.with_(parameters={**chain.job.parameters, "waves": waves})
        rescaled_job = chain.job.with_(parallelism=parallelism, max_parallelism=chain.new_max_parallelism)
        verdict = flink.restore(result, job_after_waves, rescaled_job, next_kind="checkpoint")
        assert verdict.ok, verdict
