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
OFTEN = {
    **CHANGELOG,
    "state.backend.changelog.periodic-materialize.interval": "50ms",
    "state.changelog.periodic-materialize.interval": "50ms",
}
CHURN = Job("churn", 2, {"seed": 7, "keys": 24, "waves": 2}, max_parallelism=128)


@dataclass(frozen=True)
class ChangelogCase:
    """`job` with changes after its last materialisation takes `kinds` of snapshots and is restored in another shape.

    With `before`, the job is first restored, in CLAIM mode, from a savepoint of that parallelism. If `stays`, the
    restored job also has a changelog, and must start in CLAIM mode.
    """

    line: str
    job: Job
    kinds: tuple[str, ...]
    format: str
    parallelism: int
    max_parallelism: int
    onto: str
    before: int = 0
    stays: bool = False

    def __str__(self) -> str:
        restored_from = f"-restored-from-{self.before}" if self.before else ""
        return f"{self.line}-{self.job.scenario}{restored_from}-{self.job.backend}-{self.format}-{self.onto}"


TWICE, WAVES = ("checkpoint", "checkpoint"), ("wave", "wave", "checkpoint")
EVERYTHING = everything(3).with_(configuration=CHANGELOG)
UUIDS = keyed(3, 128, "Long", "UUID").with_(configuration=OFTEN, **ROCKSDB)
LAZY = everything(4, 129, lazy=1).with_(configuration=OFTEN, **ROCKSDB)
CHURN_WITH_CHANGELOG = CHURN.with_(configuration=CHANGELOG)
MERGING = graph("merging", 2, wave=1).with_(configuration=CHANGELOG)
QUERIES = graph("queries", 2, wave=1, joins=1, ranks=1).with_(configuration=CHANGELOG, **ROCKSDB)
CASES = (
    ChangelogCase("flink_2", EVERYTHING, TWICE[:1], "canonical", 5, 128, "hashmap"),
    ChangelogCase("flink_1_20", EVERYTHING.with_(**ROCKSDB), TWICE[:1], "rocksdb", 2, 1000, "rocksdb"),
    ChangelogCase("flink_1_20", LAZY, TWICE, "canonical", 3, 43, "hashmap"),
    ChangelogCase("flink_2", LAZY, TWICE, "rocksdb", 7, 129, "rocksdb"),
    ChangelogCase("flink_1_20", UUIDS, TWICE, "rocksdb", 2, 1000, "rocksdb"),
    ChangelogCase("flink_2", UUIDS, TWICE, "canonical", 2, 1000, "hashmap"),
    ChangelogCase("flink_1_20", CHURN_WITH_CHANGELOG, WAVES, "rocksdb", 3, 128, "rocksdb", before=2, stays=True),
    ChangelogCase("flink_2", CHURN_WITH_CHANGELOG.with_(**ROCKSDB), WAVES, "canonical", 5, 1000, "hashmap", before=2),
    ChangelogCase(
        "flink_1_20", CHURN_WITH_CHANGELOG.with_(parallelism=3), WAVES, "canonical", 4, 128, "hashmap", before=2
    ),
    ChangelogCase("flink_2", CHURN_WITH_CHANGELOG.with_(parallelism=3), WAVES, "rocksdb", 2, 1000, "rocksdb", before=4),
    ChangelogCase("flink_1_20", MERGING, WAVES[1:], "rocksdb", 3, 64, "rocksdb", before=3),
    ChangelogCase("flink_2", QUERIES, WAVES[1:], "canonical", 3, 1000, "hashmap", before=3),
)


@pytest.mark.parametrize("case", [(slow if n > 1 else gate)(case, id=str(case)) for n, case in enumerate(CASES)])
def test_flink_continues_from_a_rescaled_changelog(
    request: pytest.FixtureRequest, tmp_path: Path, case: ChangelogCase
) -> None:
    """Results and state of the restored job, and of its own snapshot, are as computed in Java."""
    flink: Flink = request.getfixturevalue(case.line)
    before = None
    if case.before:
        first = case.job.with_(parallelism=case.before, configuration={})
        before = flink.snapshot(first, tmp_path / "before", "native")
    source = flink.snapshots(case.job, tmp_path / "source", *case.kinds, restored=before, claim_mode="CLAIM")[-1]
    allowed = [str(tmp_path)]
    assert any(operator.changelogs for operator in open_snapshot(str(source), allowed).operators)
    shape = ([str(case.parallelism)], allowed, [str(case.max_parallelism)])
    execute_without_spark(plan_rescale(str(source), str(tmp_path / "target"), *shape, format=case.format))
    restored = case.job.with_(
        parallelism=case.parallelism,
        max_parallelism=case.max_parallelism,
        backend=case.onto,
        configuration=CHANGELOG if case.stays else {},
        parameters={name: value for name, value in case.job.parameters.items() if name != "wave"},
    )
    mode, again = ("CLAIM", None) if case.stays else ("NO_CLAIM", "checkpoint")
    verdict = flink.restore(tmp_path / "target", case.job, restored, claim_mode=mode, again=again)
    assert verdict.ok, verdict
    assert verdict.compared["results" if "wave" in case.job.parameters else "keyed"] > 100
