"""RocksDB state is copied in its own shape to another folder; real Flink restores the copy without the source."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from oracle.cases import ROCKSDB, everything, graph
from oracle.harness import Flink, Job
from support.pipeline import rescale_snapshot
from support.slow import lines_in_turn

INCREMENTAL = {"state.backend.incremental": "true", "execution.checkpointing.incremental": "true"}
MERGING = {**INCREMENTAL, "execution.checkpointing.file-merging.enabled": "true"}
HEAP_TIMERS = {**INCREMENTAL, "state.backend.rocksdb.timer-service.factory": "HEAP"}
CHANGELOG = {"state.changelog.enabled": "true", "state.backend.changelog.enabled": "true"}

CopyCase = tuple[str, Job, dict[str, str], str, int]
"""Name, job, options of Flink, kind of snapshot, and parallelism of the restored job."""

COPY_CASES: tuple[CopyCase, ...] = (
    ("native", everything(4), {}, "native", 4),
    ("native incremental", everything(3, 1000, keys=40), INCREMENTAL, "native", 5),
    ("checkpoint", everything(3), {}, "checkpoint", 3),
    ("incremental checkpoint", everything(4, 129, lazy=1), INCREMENTAL, "checkpoint", 4),
    ("incremental checkpoint", graph("windows", 3), INCREMENTAL, "checkpoint", 2),
    ("merged files", everything(3), MERGING, "checkpoint", 3),
    ("heap timers", everything(3), HEAP_TIMERS, "checkpoint", 4),
    ("changelog", everything(3), CHANGELOG, "native", 3),
)
QUICK_LABELS = ("native incremental",)


@pytest.mark.parametrize(
    ("flink", "case"),
    lines_in_turn(lambda case: case[0] in QUICK_LABELS, COPY_CASES),
    indirect=["flink"],
    ids=lambda value: value if isinstance(value, str) else f"{value[0]}-{value[1].parallelism}to{value[4]}",
)
def test_flink_continues_from_a_copy(flink: Flink, tmp_path: Path, case: CopyCase) -> None:
    _, plain_job, configuration, kind, restored_parallelism = case
    job = plain_job.with_(**ROCKSDB, configuration=configuration)
    source = flink.snapshot(job, tmp_path / "source", kind)
    rescale_snapshot(str(source), str(tmp_path / "target"))
    shutil.rmtree(tmp_path / "source")
    copy = tmp_path / "elsewhere" / "copy"
    shutil.copytree(tmp_path / "target", copy)
    shutil.rmtree(tmp_path / "target")
    # The restored job has no changelog, because its in-memory storage is only for tests: the base state must be enough.
    options = {option: value for option, value in job.configuration.items() if option not in CHANGELOG}
    verdict = flink.restore(
        copy, job, job.with_(parallelism=restored_parallelism, configuration=options), next_kind=kind
    )
    assert verdict.ok, verdict
    assert verdict.comparisons["results"] > 0


MOVED_SOURCE_CASES: tuple[CopyCase, ...] = (
    ("incremental checkpoint", everything(4), INCREMENTAL, "checkpoint", 3),
    ("merged files", everything(3), MERGING, "checkpoint", 5),
)


@pytest.mark.parametrize(
    ("flink", "case"),
    lines_in_turn(lambda _: False, MOVED_SOURCE_CASES),
    indirect=["flink"],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_flink_continues_from_the_result_of_a_moved_source(flink: Flink, tmp_path: Path, case: CopyCase) -> None:
    _, plain_job, configuration, kind, restored_parallelism = case
    job = plain_job.with_(**ROCKSDB, configuration=configuration)
    source = flink.snapshot(job, tmp_path / "source", kind)
    moved_source = tmp_path / "replica" / source.relative_to(tmp_path / "source")
    shutil.move(tmp_path / "source", tmp_path / "replica")
    rescale_snapshot(str(moved_source), str(tmp_path / "target"), parallelism=[str(restored_parallelism)])
    shutil.rmtree(tmp_path / "replica")
    verdict = flink.restore(tmp_path / "target", job, job.with_(parallelism=restored_parallelism))
    assert verdict.ok, verdict
    assert verdict.comparisons["results"] > 0
