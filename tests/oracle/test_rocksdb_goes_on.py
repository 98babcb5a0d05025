"""A job that was started from RocksDB directories of Rescale continues as any other job.

It changes its state and takes incremental checkpoints, and Flink and Rescale can both rescale it from the third one. In
claim mode it owns the result and deletes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from oracle.cases import ROCKSDB, graph
from oracle.harness import Flink, Job
from oracle.test_canonical import CHANGING_KINDS
from oracle.test_copies import INCREMENTAL
from rescale.runstate.removal import discard
from support.pipeline import execute, plan_rescale
from support.slow import lines_in_turn

CHURN = graph("churn", 2)
OLD_RELEASE = "1.18.1"


@dataclass(frozen=True)
class Case:
    """A snapshot of `kind` from `backend` that becomes RocksDB directories in another shape."""

    label: str
    kind: str
    parallelism: int
    max_parallelism: int | None = None
    backend: str = "rocksdb"
    files: str = "copy"
    quick: bool = False

    def result(self, flink: Flink, folder: Path) -> tuple[Path, Job]:
        """Return the target, and the job in the shape in which it is started from the target."""
        job = CHURN.with_(backend=self.backend, configuration=INCREMENTAL if self.backend == "rocksdb" else {})
        source, target = flink.snapshot(job, folder / "source", self.kind), folder / "target"
        plan = plan_rescale(
            str(source),
            str(target),
            [str(self.parallelism)],
            max_parallelism=[str(self.max_parallelism)] if self.max_parallelism else [],
            format="rocksdb",
            files=self.files,
        )
        assert any(operator.is_in_rocksdb for operator in plan.operators)
        execute(plan)
        shape = {"parallelism": self.parallelism, "max_parallelism": self.max_parallelism or CHURN.max_parallelism}
        return target, CHURN.with_(**ROCKSDB, **shape, configuration=INCREMENTAL)


CASES = (
    Case("kept", "native", 3, quick=True),
    Case("kept", "checkpoint", 5),
    Case("referred", "checkpoint", 5, files="refer"),
    Case("rehashed", "native", 3, 1000),
    Case("of the heap", "canonical", 3, 64, backend="hashmap"),
)
OWNED_CASES = tuple(case for case in CASES if case.files == "copy")


def case_name(value: Case | str) -> str:
    return (
        value if isinstance(value, str) else f"{value.label}-{value.kind}-{value.parallelism}-{value.max_parallelism}"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flink", "case"), lines_in_turn(lambda case: case.quick, CASES), indirect=["flink"], ids=case_name
)
def test_third_checkpoint_is_rescaled_by_flink_and_by_rescale(flink: Flink, tmp_path: Path, case: Case) -> None:
    target, job = case.result(flink, tmp_path)
    third_checkpoint = flink.snapshots(job, tmp_path / "life", *CHANGING_KINDS, restored=target)[-1]
    job_after_waves = CHURN.with_(parameters={**CHURN.parameters, "waves": 2})
    wider_job = job.with_(parallelism=job.parallelism + 1)
    for verdict in (
        flink.restore(third_checkpoint, job_after_waves, job),
        flink.restore(third_checkpoint, job_after_waves, wider_job),
    ):
        assert verdict.ok, verdict
    allowed_prefixes = [str(tmp_path / "life"), str(tmp_path / "source")]
    for parallelism, max_parallelism in ((2, job.max_parallelism), (4, 256)):
        target_again = tmp_path / f"again-{max_parallelism}"
        execute(
            plan_rescale(
                str(third_checkpoint),
                str(target_again),
                [str(parallelism)],
                allowed_prefixes,
                max_parallelism=[str(max_parallelism)],
            )
        )
        verdict = flink.restore(
            target_again, job_after_waves, job.with_(parallelism=parallelism, max_parallelism=max_parallelism)
        )
        assert verdict.ok, verdict


@pytest.mark.parametrize(
    ("flink", "case"), lines_in_turn(lambda case: case.quick, OWNED_CASES), indirect=["flink"], ids=case_name
)
def test_job_that_owns_the_result_deletes_it(flink: Flink, tmp_path: Path, case: Case) -> None:
    target, job = case.result(flink, tmp_path)
    verdict = flink.restore(target, CHURN, job, claim_mode="CLAIM", next_kind="checkpoint")
    assert verdict.ok, verdict
    assert verdict.checkpoints_until_deleted is not None
    assert verdict.checkpoints_until_deleted > 0
    assert not target.exists()
    assert discard(str(target)).removed, "there were no documents to remove"


@pytest.fixture(scope="module")
def older_flink() -> Iterator[Flink]:
    with Flink(OLD_RELEASE) as flink:
        yield flink


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "parallelism"), [("native", 5), ("checkpoint", 2)])
def test_older_flink_continues_from_unchanged_directories(
    older_flink: Flink, tmp_path: Path, kind: str, parallelism: int
) -> None:
    target, job = Case("old", kind, parallelism).result(older_flink, tmp_path)
    verdict = older_flink.restore(target, CHURN, job, next_kind="checkpoint")
    assert verdict.ok, verdict
