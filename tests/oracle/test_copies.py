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

Copy = tuple[str, Job, dict[str, str], str, int]
"""Name, job, options of Flink, kind of snapshot, and parallelism of the restored job."""

COPIES: tuple[Copy, ...] = (
    ("native", everything(4), {}, "native", 4),
    ("native incremental", everything(3, 1000, keys=40), INCREMENTAL, "native", 5),
    ("checkpoint", everything(3), {}, "checkpoint", 3),
    ("incremental checkpoint", everything(4, 129, lazy=1), INCREMENTAL, "checkpoint", 4),
    ("incremental checkpoint", graph("windows", 3), INCREMENTAL, "checkpoint", 2),
    ("merged files", everything(3), MERGING, "checkpoint", 3),
    ("heap timers", everything(3), HEAP_TIMERS, "checkpoint", 4),
    ("changelog", everything(3), CHANGELOG, "native", 3),
)
QUICK = ("native incremental",)


@pytest.mark.parametrize(
    ("flink", "case"),
    lines_in_turn(lambda case: case[0] in QUICK, COPIES),
    indirect=["flink"],
    ids=lambda value: value if isinstance(value, str) else f"{value[0]}-{value[1].parallelism}to{value[4]}",
)
def test_flink_continues_from_a_copy(flink: Flink, tmp_path: Path, case: Copy) -> None:
    _, plain, configuration, kind, restored = case
    job = plain.with_(**ROCKSDB, configuration=configuration)
    source = flink.snapshot(job, tmp_path / "source", kind)
    rescale_snapshot(str(source), str(tmp_path / "target"))
    shutil.rmtree(tmp_path / "source")
    copy = tmp_path / "elsewhere" / "copy"
    shutil.copytree(tmp_path / "target", copy)
    shutil.rmtree(tmp_path / "target")
    # The restored job has no changelog, because its in-memory storage is only for tests: the base state must be enough.
    options = {option: value for option, value in job.configuration.items() if option not in CHANGELOG}
    verdict = flink.restore(copy, job, job.with_(parallelism=restored, configuration=options), again=kind)
    assert verdict.ok, verdict
    assert verdict.compared["results"] > 0


MOVED: tuple[Copy, ...] = (
    ("incremental checkpoint", everything(4), INCREMENTAL, "checkpoint", 3),
    ("merged files", everything(3), MERGING, "checkpoint", 5),
)


@pytest.mark.parametrize(
    ("flink", "case"),
    lines_in_turn(lambda _: False, MOVED),
    indirect=["flink"],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_flink_continues_from_the_result_of_a_moved_source(flink: Flink, tmp_path: Path, case: Copy) -> None:
    _, plain, configuration, kind, restored = case
    job = plain.with_(**ROCKSDB, configuration=configuration)
    source = flink.snapshot(job, tmp_path / "source", kind)
    moved = tmp_path / "replica" / source.relative_to(tmp_path / "source")
    shutil.move(tmp_path / "source", tmp_path / "replica")
    rescale_snapshot(str(moved), str(tmp_path / "target"), parallelism=[str(restored)])
    shutil.rmtree(tmp_path / "replica")
    verdict = flink.restore(tmp_path / "target", job, job.with_(parallelism=restored))
    assert verdict.ok, verdict
    assert verdict.compared["results"] > 0
