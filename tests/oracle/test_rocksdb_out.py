"""RocksDB directories in another shape: real Flink opens them unchanged, and continues with incremental checkpoints.

Its log shows that each subtask opens one handle with its own range, and that nothing is clipped, merged or ingested.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import Mock

import pytest

from oracle.cases import ROCKSDB, everything, graph
from oracle.harness import Flink, Job
from oracle.key_types import FOLDED_KEYS, keyed
from oracle.test_canonical import CHANGING_KINDS, INLINE
from oracle.test_copies import HEAP_TIMERS, INCREMENTAL, MERGING
from rescale.execution.rekeying import key_order
from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.execution.writers import windows
from support import snapshots
from support.pipeline import execute, execute_without_spark, plan_rescale
from support.slow import lines_in_turn, slow

OPENED_MESSAGE = "Restored previous incremental files status in backend with range"
REBUILD_MESSAGES = ("Completed restoring backend with range", "Transferring remote state", "import", "clip")


@dataclass(frozen=True)
class Case:
    """The last snapshot of `kinds` that `job` takes gets another shape in `format`.

    If `first_parallelism` is set, `job` itself is restored from a native savepoint at that parallelism, so that Flink
    has rescaled it. `files` says whether files are copied or referred to. Quick cases run as quick tests. A `gate` case
    shows something that no quick case shows.
    """

    label: str
    job: Job
    options: dict[str, str]
    kinds: tuple[str, ...]
    parallelism: int
    max_parallelism: int | None = None
    format: str = "keep"
    backend: str = "rocksdb"
    first_parallelism: int | None = None
    files: str = "copy"
    quick: bool = False
    gate: bool = False

    @property
    def source_job(self) -> Job:
        return self.job.with_(backend=self.backend, configuration=self.options)

    @property
    def name(self) -> str:
        maxima = f"{self.job.max_parallelism}to{self.max_parallelism or self.job.max_parallelism}"
        return f"{self.label}-{self.job.parallelism}to{self.parallelism}-{maxima}-{self.format}-{self.files}"


CASES = (
    Case("native", everything(4), {}, ("native",), 3),
    Case("native", everything(4), {}, ("native",), 8),
    Case("native", everything(3, 1000, keys=40), {}, ("native",), 1),
    Case("native of POJOs", keyed(3, 128, *FOLDED_KEYS), {}, ("native",), 5),
    Case("incremental checkpoint", everything(4, 129, lazy=1), INCREMENTAL, ("checkpoint",), 2),
    Case("incremental checkpoint", graph("windows", 3), INCREMENTAL, ("checkpoint",), 8),
    Case("third incremental checkpoint", graph("churn", 2, waves=2), INCREMENTAL, CHANGING_KINDS, 3),
    Case("rescaled", graph("windows", 3), INCREMENTAL, ("native",), 2, first_parallelism=2),
    Case("rescaled", graph("windows", 2), INCREMENTAL, ("native",), 5, first_parallelism=3),
    Case("native", everything(4), {}, ("native",), 3, files="refer"),
    Case(
        "third incremental checkpoint",
        graph("churn", 2, waves=2),
        INCREMENTAL,
        CHANGING_KINDS,
        5,
        files="refer",
        gate=True,
    ),
    Case("rescaled", graph("windows", 2), INCREMENTAL, ("native",), 5, first_parallelism=3, files="refer"),
    Case("inline", everything(2), INLINE, ("checkpoint",), 3),
    Case("merged files", everything(3), MERGING, ("checkpoint",), 5, gate=True),
    Case("native", everything(4), {}, ("native",), 3, 256, quick=True),
    Case("native incremental", everything(3, 1000, keys=40), INCREMENTAL, ("native",), 5, 64),
    Case("incremental checkpoint", graph("windows", 3), INCREMENTAL, ("checkpoint",), 8, 1000),
    Case("third incremental checkpoint", graph("churn", 2, waves=2), INCREMENTAL, CHANGING_KINDS, 3, 1000),
    Case("timers on the heap", everything(3), HEAP_TIMERS, ("checkpoint",), 5, 256, gate=True),
    Case("timers on the heap", everything(3), HEAP_TIMERS, ("checkpoint",), 2, 64),
    Case("timers on the heap", graph("windows", 2), HEAP_TIMERS, ("checkpoint",), 3, 256),
    Case("timers on the heap", graph("churn", 2, waves=2), HEAP_TIMERS, CHANGING_KINDS, 5, 1000),
    Case("timers on the heap", graph("windows", 3), HEAP_TIMERS, ("checkpoint",), 8),
    Case("timers on the heap", graph("cep", 3), HEAP_TIMERS, ("checkpoint",), 1, 1000, "rocksdb"),
    Case("canonical", everything(4), {}, ("canonical",), 5, format="rocksdb"),
    Case("canonical of the heap", everything(3), {}, ("canonical",), 2, 1000, "rocksdb", "hashmap", quick=True),
    Case("canonical of the heap", graph("windows", 2), {}, ("canonical",), 8, 64, "rocksdb", "hashmap"),
    Case("native of the hashmap backend", everything(3), {}, ("checkpoint",), 5, 1000, "rocksdb", "hashmap"),
    Case("native of the hashmap backend", graph("windows", 2), {}, ("native",), 3, None, "rocksdb", "hashmap"),
)


@pytest.mark.parametrize(
    ("flink", "case"),
    lines_in_turn(lambda case: case.quick, CASES, lambda case: case.gate),
    indirect=["flink"],
    ids=lambda value: getattr(value, "name", value),
)
def test_flink_opens_rocksdb_directories_unchanged(flink: Flink, tmp_path: Path, case: Case) -> None:
    first_savepoint = None
    if case.first_parallelism:
        first_savepoint = flink.snapshot(
            case.source_job.with_(parallelism=case.first_parallelism), tmp_path / "first", "native"
        )
    source = flink.snapshots(case.source_job, tmp_path / "source", *case.kinds, restored=first_savepoint)[-1]
    target = tmp_path / "target"
    plan = plan_rescale(
        str(source),
        str(target),
        [str(case.parallelism)],
        [str(tmp_path / "first")],
        max_parallelism=[str(case.max_parallelism)] if case.max_parallelism else [],
        format=case.format,
        files=case.files,
    )
    execute(plan)
    certificate = validate_published(
        str(source), str(target), InProcessTasks(), allow_prefixes=[str(tmp_path / "first")]
    )
    assert certificate.verdict == "complete"
    assert plan.refers is (case.files == "refer")
    if not plan.refers:
        shutil.rmtree(tmp_path / "source")
        shutil.rmtree(tmp_path / "first", ignore_errors=True)
    restored_job = case.job.with_(
        **ROCKSDB,
        parallelism=case.parallelism,
        max_parallelism=case.max_parallelism or case.job.max_parallelism,
        configuration=HEAP_TIMERS if case.options is HEAP_TIMERS else INCREMENTAL,
    )
    log_size = flink.log.stat().st_size
    verdict = flink.restore(target, case.job, restored_job, next_kind="checkpoint", keep=tmp_path / "again")
    assert verdict.ok, verdict
    assert verdict.comparisons["results"] > 0 or case.job.scenario == "churn", verdict
    log = flink.log.read_bytes()[log_size:].decode(errors="replace")
    new_directories = sum(len(o.rekeying.streams) for o in plan.operators if o.rekeying)
    directories = new_directories + sum(len(o.databases) + len(o.compacted) for o in plan.operators)
    assert log.count(OPENED_MESSAGE) >= directories > 0
    assert not [line for line in log.splitlines() if any(message in line for message in REBUILD_MESSAGES)]


@pytest.mark.slow
@pytest.mark.parametrize("window_bytes", [100, 1000])
def test_flink_continues_from_state_that_was_sorted_in_parts(
    flink: Flink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window_bytes: int
) -> None:
    """The state does not fit into memory: its records are sorted in runs, which are merged window by window."""
    monkeypatch.setattr(windows, "CELL_BYTES", 3 * window_bytes)
    monkeypatch.setattr(windows, "WINDOW_BYTES", window_bytes)
    merge_runs = Mock(wraps=key_order._merge_runs)
    monkeypatch.setattr(key_order, "_merge_runs", merge_runs)
    job, target = everything(4, keys=400), tmp_path / "target"
    source = flink.snapshot(job.with_(**ROCKSDB), tmp_path / "source", "native")
    execute_without_spark(plan_rescale(str(source), str(target), ["3"], max_parallelism=["6"]))
    assert merge_runs.called
    restored_job = job.with_(**ROCKSDB, parallelism=3, max_parallelism=6)
    verdict = flink.restore(target, job, restored_job, next_kind="checkpoint")
    assert verdict.ok, verdict
    assert verdict.comparisons["keyed"] > 0


@pytest.mark.parametrize("configuration", [HEAP_TIMERS, slow(INCREMENTAL)], ids=["on the heap", "in RocksDB"])
@pytest.mark.parametrize("max_parallelism", [100, slow(200)])
def test_flink_continues_from_doubled_timers_of_an_old_release(
    flink: Flink, tmp_path: Path, max_parallelism: int, configuration: dict[str, str]
) -> None:
    """Before Flink 1.16 timers were stored as keyed and as raw keyed state. A job with timers on the heap does not
    restore timers of RocksDB.
    """
    name, target = "1.15.4-full-heap-timers", tmp_path / "target"
    execute(
        plan_rescale(
            snapshots.directory(name), str(target), ["3"], max_parallelism=[str(max_parallelism)], format="rocksdb"
        )
    )
    job = Job(**json.loads((snapshots.FIXTURES / name / "expected.json").read_text())["job"])
    restored_job = job.with_(parallelism=3, max_parallelism=max_parallelism, configuration=configuration)
    verdict = flink.restore(target, job, restored_job, next_kind="checkpoint")
    assert verdict.ok, verdict
    assert verdict.comparisons["keyed"] > 0
