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
from oracle.test_canonical import CHANGING, INLINE
from oracle.test_copies import HEAP_TIMERS, INCREMENTAL, MERGING
from rescale.execution.rekeying import key_order
from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.execution.writers import windows
from support import snapshots
from support.pipeline import execute, execute_without_spark, plan_rescale
from support.slow import lines_in_turn, slow

OPENED = "Restored previous incremental files status in backend with range"
REBUILT = ("Completed restoring backend with range", "Transferring remote state", "import", "clip")


@dataclass(frozen=True)
class Case:
    """The last snapshot of `kinds` that `job` takes gets another shape in `format`.

    If `before` is set, `job` itself is restored from a native savepoint at that parallelism, so that Flink has rescaled
    it. `files` says whether files are copied or referred to. Quick cases run as quick tests. A `gate` case shows
    something that no quick case shows.
    """

    label: str
    job: Job
    options: dict[str, str]
    kinds: tuple[str, ...]
    parallelism: int
    maximum: int | None = None
    format: str = "keep"
    backend: str = "rocksdb"
    before: int | None = None
    files: str = "copy"
    quick: bool = False
    gate: bool = False

    @property
    def source(self) -> Job:
        return self.job.with_(backend=self.backend, configuration=self.options)

    @property
    def name(self) -> str:
        maxima = f"{self.job.max_parallelism}to{self.maximum or self.job.max_parallelism}"
        return f"{self.label}-{self.job.parallelism}to{self.parallelism}-{maxima}-{self.format}-{self.files}"


CASES = (
    Case("native", everything(4), {}, ("native",), 3),
    Case("native", everything(4), {}, ("native",), 8),
    Case("native", everything(3, 1000, keys=40), {}, ("native",), 1),
    Case("native of POJOs", keyed(3, 128, *FOLDED_KEYS), {}, ("native",), 5),
    Case("incremental checkpoint", everything(4, 129, lazy=1), INCREMENTAL, ("checkpoint",), 2),
    Case("incremental checkpoint", graph("windows", 3), INCREMENTAL, ("checkpoint",), 8),
    Case("third incremental checkpoint", graph("churn", 2, waves=2), INCREMENTAL, CHANGING, 3),
    Case("rescaled", graph("windows", 3), INCREMENTAL, ("native",), 2, before=2),
    Case("rescaled", graph("windows", 2), INCREMENTAL, ("native",), 5, before=3),
    Case("native", everything(4), {}, ("native",), 3, files="refer"),
    Case(
        "third incremental checkpoint", graph("churn", 2, waves=2), INCREMENTAL, CHANGING, 5, files="refer", gate=True
    ),
    Case("rescaled", graph("windows", 2), INCREMENTAL, ("native",), 5, before=3, files="refer"),
    Case("inline", everything(2), INLINE, ("checkpoint",), 3),
    Case("merged files", everything(3), MERGING, ("checkpoint",), 5, gate=True),
    Case("native", everything(4), {}, ("native",), 3, 256, quick=True),
    Case("native incremental", everything(3, 1000, keys=40), INCREMENTAL, ("native",), 5, 64),
    Case("incremental checkpoint", graph("windows", 3), INCREMENTAL, ("checkpoint",), 8, 1000),
    Case("third incremental checkpoint", graph("churn", 2, waves=2), INCREMENTAL, CHANGING, 3, 1000),
    Case("timers on the heap", everything(3), HEAP_TIMERS, ("checkpoint",), 5, 256, gate=True),
    Case("timers on the heap", everything(3), HEAP_TIMERS, ("checkpoint",), 2, 64),
    Case("timers on the heap", graph("windows", 2), HEAP_TIMERS, ("checkpoint",), 3, 256),
    Case("timers on the heap", graph("churn", 2, waves=2), HEAP_TIMERS, CHANGING, 5, 1000),
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
    first = None
    if case.before:
        first = flink.snapshot(case.source.with_(parallelism=case.before), tmp_path / "first", "native")
    source = flink.snapshots(case.source, tmp_path / "source", *case.kinds, restored=first)[-1]
    target = tmp_path / "target"
    plan = plan_rescale(
        str(source),
        str(target),
        [str(case.parallelism)],
        [str(tmp_path / "first")],
        max_parallelism=[str(case.maximum)] if case.maximum else [],
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
    job = case.job.with_(
        **ROCKSDB,
        parallelism=case.parallelism,
        max_parallelism=case.maximum or case.job.max_parallelism,
        configuration=HEAP_TIMERS if case.options is HEAP_TIMERS else INCREMENTAL,
    )
    before = flink.log.stat().st_size
    verdict = flink.restore(target, case.job, job, again="checkpoint", keep=tmp_path / "again")
    assert verdict.ok, verdict
    assert verdict.compared["results"] > 0 or case.job.scenario == "churn", verdict
    log = flink.log.read_bytes()[before:].decode(errors="replace")
    new_directories = sum(len(o.rekeying.streams) for o in plan.operators if o.rekeying)
    directories = new_directories + sum(len(o.databases) + len(o.compacted) for o in plan.operators)
    assert log.count(OPENED) >= directories > 0
    assert not [line for line in log.splitlines() if any(word in line for word in REBUILT)]


@pytest.mark.slow
@pytest.mark.parametrize("window", [100, 1000])
def test_flink_continues_from_state_that_was_sorted_in_parts(
    flink: Flink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    """The state does not fit into memory: its records are sorted in runs, which are merged window by window."""
    monkeypatch.setattr(windows, "CELL_BYTES", 3 * window)
    monkeypatch.setattr(windows, "WINDOW_BYTES", window)
    merged = Mock(wraps=key_order._merge_runs)
    monkeypatch.setattr(key_order, "_merge_runs", merged)
    job, target = everything(4, keys=400), tmp_path / "target"
    source = flink.snapshot(job.with_(**ROCKSDB), tmp_path / "source", "native")
    execute_without_spark(plan_rescale(str(source), str(target), ["3"], max_parallelism=["6"]))
    assert merged.called
    restored = job.with_(**ROCKSDB, parallelism=3, max_parallelism=6)
    verdict = flink.restore(target, job, restored, again="checkpoint")
    assert verdict.ok, verdict
    assert verdict.compared["keyed"] > 0


@pytest.mark.parametrize("kept", [HEAP_TIMERS, slow(INCREMENTAL)], ids=["on the heap", "in RocksDB"])
@pytest.mark.parametrize("maximum", [100, slow(200)])
def test_flink_continues_from_doubled_timers_of_an_old_release(
    flink: Flink, tmp_path: Path, maximum: int, kept: dict[str, str]
) -> None:
    """Before Flink 1.16 timers were stored as keyed and as raw keyed state. A job with timers on the heap does not
    restore timers of RocksDB.
    """
    name, target = "1.15.4-full-heap-timers", tmp_path / "target"
    execute(
        plan_rescale(snapshots.directory(name), str(target), ["3"], max_parallelism=[str(maximum)], format="rocksdb")
    )
    job = Job(**json.loads((snapshots.FIXTURES / name / "expected.json").read_text())["job"])
    restored = job.with_(parallelism=3, max_parallelism=maximum, configuration=kept)
    verdict = flink.restore(target, job, restored, again="checkpoint")
    assert verdict.ok, verdict
    assert verdict.compared["keyed"] > 0
