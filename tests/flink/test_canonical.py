"""RocksDB state as canonical state in another shape, with the original gone: real Flink judges the result."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from flink.cases import ROCKSDB, everything, graph
from flink.harness import Flink, Job
from flink.test_copies import INCREMENTAL
from support.pipeline import execute, plan_rescale

CASES = (
    ("native", everything(4), {}, "native", 3, 128, "hashmap"),
    ("native incremental", everything(3, 1000, keys=40), INCREMENTAL, "native", 5, 64, "rocksdb"),
    ("incremental checkpoint", everything(4, 129, lazy=1), INCREMENTAL, "checkpoint", 2, 256, "rocksdb"),
    ("incremental checkpoint", graph("windows", 3), INCREMENTAL, "checkpoint", 4, 1000, "hashmap"),
)


@pytest.mark.parametrize(
    ("job", "kind", "parallelism", "maximum", "onto"),
    [(job.with_(**ROCKSDB, configuration=options), kind, p, m, onto) for _, job, options, kind, p, m, onto in CASES],
    ids=[f"{what}-{job.parallelism}to{p}-{job.max_parallelism}to{m}" for what, job, _, _, p, m, _ in CASES],
)
def test_flink_goes_on_from_canonical_state(
    flink: Flink, tmp_path: Path, job: Job, kind: str, parallelism: int, maximum: int, onto: str
) -> None:
    source, target = flink.snapshot(job, tmp_path / "source", kind), tmp_path / "target"
    shape = ([str(parallelism)], [str(maximum)])
    execute(plan_rescale(str(source), str(target), shape[0], max_parallelism=shape[1], format="canonical"))
    shutil.rmtree(tmp_path / "source")
    restored = job.with_(parallelism=parallelism, max_parallelism=maximum, backend=onto, configuration={})
    verdict = flink.restore(target, job, restored, again="canonical")
    assert verdict.ok, verdict
    assert verdict.compared["results"] > 0
