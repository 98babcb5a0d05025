"""A job with a changelog whose changes are not materialised is rescaled, restored and continued by real Flink."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from oracle.cases import ROCKSDB, everything, graph
from oracle.harness import Flink, Job
from oracle.key_types import keyed
from rescale.snapshot.reading.opening import open_snapshot
from support.pipeline import execute_without_spark, plan_rescale
from support.slow import gate, slow

CHANGELOG = {"state.changelog.enabled": "true", "state.backend.changelog.enabled": "true"}
MATERIALIZE_OFTEN = {
    **CHANGELOG,
    "state.backend.changelog.periodic-materialize.interval": "50ms",
    "state.changelog.periodic-materialize.interval": "50ms",
}
CHURN = Job("churn", 2, {"seed": 7, "keys": 24, "waves": 2}, max_parallelism=128)


@dataclass(frozen=True)
class ChangelogCase:
    """`job` with changes after its last materialisation takes `kinds` of snapshots and is restored in another shape.

    With `first_parallelism`, the job is first restored, in CLAIM mode, from a savepoint of that parallelism. If
    `keeps_changelog`, the restored job also has a changelog, and must start in CLAIM mode.
    """

    flink_fixture: str
    job: Job
    kinds: tuple[str, ...]
    format: str
    parallelism: int
    max_parallelism: int
    onto: str
    first_parallelism: int = 0
    keeps_changelog: bool = False

    def __str__(self) -> str:
        restored_from = f"-restored-from-{self.first_parallelism}" if self.first_parallelism else ""
        return f"{self.flink_fixture}-{self.job.scenario}{restored_from}-{self.job.backend}-{self.format}-{self.onto}"


TWO_CHECKPOINTS, TWO_WAVES_AND_CHECKPOINT = ("checkpoint", "checkpoint"), ("wave", "wave", "checkpoint")
EVERYTHING = everything(3).with_(configuration=CHANGELOG)
UUID_JOB = keyed(3, 128, "Long", "UUID").with_(configuration=MATERIALIZE_OFTEN, **ROCKSDB)
LAZY_JOB = everything(4, 129, lazy=1).with_(configuration=MATERIALIZE_OFTEN, **ROCKSDB)
CHURN_WITH_CHANGELOG = CHURN.with_(configuration=CHANGELOG)
MERGING = graph("merging", 2, wave=1).with_(configuration=CHANGELOG)
QUERIES = graph("queries", 2, wave=1, joins=1, ranks=1).with_(configuration=CHANGELOG, **ROCKSDB)
CASES = (
    ChangelogCase("flink_2", EVERYTHING, TWO_CHECKPOINTS[:1], "canonical", 5, 128, "hashmap"),
    ChangelogCase("flink_1_20", EVERYTHING.with_(**ROCKSDB), TWO_CHECKPOINTS[:1], "rocksdb", 2, 1000, "rocksdb"),
    ChangelogCase("flink_1_20", LAZY_JOB, TWO_CHECKPOINTS, "canonical", 3, 43, "hashmap"),
    ChangelogCase("flink_2", LAZY_JOB, TWO_CHECKPOINTS, "rocksdb", 7, 129, "rocksdb"),
    ChangelogCase("flink_1_20", UUID_JOB, TWO_CHECKPOINTS, "rocksdb", 2, 1000, "rocksdb"),
    ChangelogCase("flink_2", UUID_JOB, TWO_CHECKPOINTS, "canonical", 2, 1000, "hashmap"),
    ChangelogCase(
        "flink_1_20",
        CHURN_WITH_CHANGELOG,
        TWO_WAVES_AND_CHECKPOINT,
        "rocksdb",
        3,
        128,
        "rocksdb",
        first_parallelism=2,
        keeps_changelog=True,
    ),
    ChangelogCase(
        "flink_2",
        CHURN_WITH_CHANGELOG.with_(**ROCKSDB),
        TWO_WAVES_AND_CHECKPOINT,
        "canonical",
        5,
        1000,
        "hashmap",
        first_parallelism=2,
    ),
    ChangelogCase(
        "flink_1_20",
        CHURN_WITH_CHANGELOG.with_(parallelism=3),
        TWO_WAVES_AND_CHECKPOINT,
        "canonical",
        4,
        128,
        "hashmap",
        first_parallelism=2,
    ),
    ChangelogCase(
        "flink_2",
        CHURN_WITH_CHANGELOG.with_(parallelism=3),
        TWO_WAVES_AND_CHECKPOINT,
        "rocksdb",
        2,
        1000,
        "rocksdb",
        first_parallelism=4,
    ),
    ChangelogCase(
        "flink_1_20", MERGING, TWO_WAVES_AND_CHECKPOINT[1:], "rocksdb", 3, 64, "rocksdb", first_parallelism=3
    ),
    ChangelogCase(
        "flink_2", QUERIES, TWO_WAVES_AND_CHECKPOINT[1:], "canonical", 3, 1000, "hashmap", first_parallelism=3
    ),
)


@pytest.mark.parametrize("case", [(slow if n > 1 else gate)(case, id=str(case)) for n, case in enumerate(CASES)])
def test_flink_continues_from_a_rescaled_changelog(
    request: pytest.FixtureRequest, tmp_path: Path, case: ChangelogCase
) -> None:
    """Results and state of the restored job, and of its own snapshot, are as computed in Java."""
    flink: Flink = request.getfixturevalue(case.flink_fixture)
    first_snapshot = None
    if case.first_parallelism:
        first_job = case.job.with_(parallelism=case.first_parallelism, configuration={})
        first_snapshot = flink.snapshot(first_job, tmp_path / "before", "native")
    source = flink.snapshots(case.job, tmp_path / "source", *case.kinds, restored=first_snapshot, claim_mode="CLAIM")[
        -1
    ]
    allowed_prefixes = [str(tmp_path)]
    assert any(operator.changelogs for operator in open_snapshot(str(source), allowed_prefixes).operators)
    shape = ([str(case.parallelism)], allowed_prefixes, [str(case.max_parallelism)])
    execute_without_spark(plan_rescale(str(source), str(tmp_path / "target"), *shape, format=case.format))
    restored_job = case.job.with_(
        parallelism=case.parallelism,
        max_parallelism=case.max_parallelism,
        backend=case.onto,
        configuration=CHANGELOG if case.keeps_changelog else {},
        parameters={name: value for name, value in case.job.parameters.items() if name != "wave"},
    )
    claim_mode, next_kind = ("CLAIM", None) if case.keeps_changelog else ("NO_CLAIM", "checkpoint")
    verdict = flink.restore(tmp_path / "target", case.job, restored_job, claim_mode=claim_mode, next_kind=next_kind)
    assert verdict.ok, verdict
    assert verdict.comparisons["results" if "wave" in case.job.parameters else "keyed"] > 100
