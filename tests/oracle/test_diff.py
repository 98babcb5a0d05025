"""Flink restores a result and takes another snapshot, which `diff` finds equal to source and result."""

from __future__ import annotations

from pathlib import Path

import pytest

from oracle.cases import COMPRESSED, ROCKSDB, everything, graph
from oracle.harness import Flink, Job
from rescale.snapshot.reading.opening import open_snapshot
from support.diffing import diff
from support.pipeline import rescale_snapshot
from support.slow import slow_but


@pytest.mark.parametrize(
    "job",
    slow_but(
        lambda job: "lazy" in job.parameters,
        [
            everything(3),
            everything(3, lazy=1).with_(**ROCKSDB, **COMPRESSED),
            graph("windows", 3).with_(**ROCKSDB),
            graph("clicks", 3),
        ],
    ),
    ids=lambda job: f"{job.scenario}-{job.backend}",
)
def test_snapshot_of_the_restored_job_is_equal_to_source_and_result(flink: Flink, tmp_path: Path, job: Job) -> None:
    source, target = flink.snapshot(job, tmp_path / "source"), tmp_path / "target"
    rescale_snapshot(str(source), str(target), parallelism=["4"], max_parallelism=["1000"])
    restored_job = job.with_(parallelism=4, max_parallelism=1000)
    verdict = flink.restore(target, job, restored_job, next_kind="canonical", keep=tmp_path / "kept")
    assert verdict.ok, verdict
    for path in (target, verdict.next_snapshot):
        difference = diff(open_snapshot(str(source)), open_snapshot(str(path)))
        assert difference.equal, [
            state for operator in difference.operators for state in operator.states if not state.equal
        ]
        assert sum(state.a.count for operator in difference.operators for state in operator.states) > 0
