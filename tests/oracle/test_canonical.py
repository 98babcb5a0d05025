"""State of RocksDB and the heap becomes canonical state in another shape; real Flink restores it without the source."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from oracle.cases import COMPRESSED, everything, graph
from oracle.harness import Flink, Job
from oracle.key_types import FOLDED_KEYS, keyed
from oracle.test_copies import HEAP_TIMERS, INCREMENTAL, MERGING
from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from support import snapshots
from support.pipeline import execute, plan_rescale
from support.slow import lines_in_turn

ON_HEAP = {"state.backend.rocksdb.timer-service.factory": "HEAP"}
INLINE = {
    **INCREMENTAL,
    "state.storage.fs.memory-threshold": "1mb",
    "execution.checkpointing.data-inline-threshold": "1mb",
}
CHANGING_KINDS = ("checkpoint", "wave", "checkpoint", "wave", "checkpoint")


@dataclass(frozen=True)
class Case:
    """The last snapshot of `kinds` that `job` takes becomes canonical and is restored `onto` a backend.

    If `first_kind` is set, `job` itself is restored from a snapshot of that kind, which it took at parallelism
    `first_parallelism`. Without this, it took the snapshot at the same parallelism, and is restored in CLAIM mode.
    Quick cases run as quick tests. A `gate` case shows something that no quick case shows.
    """

    label: str
    job: Job
    options: dict[str, str]
    kinds: tuple[str, ...]
    parallelism: int
    max_parallelism: int
    onto: str
    restored_options: dict[str, str] | None = None
    first_kind: str = ""
    first_parallelism: int | None = None
    quick: bool = False
    gate: bool = False
    backend: str = "rocksdb"

    @property
    def source_job(self) -> Job:
        return self.job.with_(backend=self.backend, configuration=self.options)

    @property
    def name(self) -> str:
        shapes = f"{self.job.parallelism}to{self.parallelism}-{self.job.max_parallelism}to{self.max_parallelism}"
        return f"{self.label}-{shapes}-{self.onto}"


CASES = (
    Case("native", everything(4), {}, ("native",), 3, 256, "hashmap"),
    Case("native incremental", everything(3, 1000, keys=40), INCREMENTAL, ("native",), 5, 64, "rocksdb"),
    Case("native of POJOs", keyed(3, 128, *FOLDED_KEYS), {}, ("native",), 2, 1000, "hashmap"),
    Case("full checkpoint", everything(3).with_(**COMPRESSED), {}, ("checkpoint",), 8, 64, "hashmap"),
    Case("incremental checkpoint", everything(4, 129, lazy=1), INCREMENTAL, ("checkpoint",), 2, 256, "rocksdb"),
    Case("incremental checkpoint", graph("windows", 3), INCREMENTAL, ("checkpoint",), 8, 1000, "hashmap", gate=True),
    Case("third incremental checkpoint", graph("churn", 2, waves=2), INCREMENTAL, CHANGING_KINDS, 3, 1000, "rocksdb"),
    Case("timers on the heap", graph("churn", 2, waves=2), ON_HEAP, CHANGING_KINDS, 5, 256, "rocksdb"),
    Case("timers on the heap", everything(3), HEAP_TIMERS, ("checkpoint",), 2, 64, "rocksdb", ON_HEAP),
    Case("timers on the heap", graph("windows", 2), HEAP_TIMERS, ("checkpoint",), 3, 1000, "hashmap"),
    Case(
        "rescaled",
        graph("windows", 3),
        INCREMENTAL,
        ("native",),
        8,
        64,
        "rocksdb",
        first_kind="native",
        first_parallelism=2,
    ),
    Case(
        "rescaled",
        graph("churn", 2, waves=1),
        INCREMENTAL,
        ("wave", "checkpoint"),
        5,
        1000,
        "hashmap",
        first_kind="native",
        first_parallelism=3,
    ),
    Case(
        "claimed",
        graph("churn", 3, waves=1),
        INCREMENTAL,
        ("wave", "checkpoint"),
        2,
        256,
        "rocksdb",
        first_kind="checkpoint",
    ),
    Case("inline", everything(2), INLINE, ("checkpoint",), 3, 64, "hashmap"),
    Case("merged files", everything(3), MERGING, ("checkpoint",), 8, 1000, "rocksdb"),
    Case("heap", everything(4), {}, ("native",), 3, 256, "rocksdb", quick=True, backend="hashmap"),
    Case("heap", everything(3, lazy=1).with_(**COMPRESSED), {}, ("checkpoint",), 5, 64, "hashmap", backend="hashmap"),
    Case("heap", graph("windows", 3), {}, ("native",), 8, 1000, "hashmap", backend="hashmap"),
    Case("heap of POJOs", keyed(3, 128, *FOLDED_KEYS, "UUID"), {}, ("native",), 2, 1000, "rocksdb", backend="hashmap"),
    Case("heap of joins", graph("joins", 3), {}, ("native",), 2, 1000, "rocksdb", backend="hashmap"),
    Case("heap", graph("sql", 3), {}, ("checkpoint",), 2, 64, "rocksdb", backend="hashmap"),
    Case(
        "restored",
        graph("cep", 3),
        {},
        ("native",),
        2,
        1000,
        "rocksdb",
        first_kind="native",
        first_parallelism=2,
        backend="hashmap",
    ),
    Case("native of a serializer of the job's own", graph("typed", 2, money=1), {}, ("native",), 3, 1000, "hashmap"),
)


@pytest.mark.parametrize(
    ("flink", "case"),
    lines_in_turn(lambda case: case.quick, CASES, lambda case: case.gate),
    indirect=["flink"],
    ids=lambda value: getattr(value, "name", value),
)
def test_flink_continues_from_canonical_state(flink: Flink, tmp_path: Path, case: Case) -> None:
    first_job = case.source_job.with_(parallelism=case.first_parallelism or case.source_job.parallelism)
    first_snapshot = flink.snapshot(first_job, tmp_path / "first", case.first_kind) if case.first_kind else None
    claim_mode = "CLAIM" if case.first_kind == "checkpoint" else "NO_CLAIM"
    source = flink.snapshots(
        case.source_job, tmp_path / "source", *case.kinds, restored=first_snapshot, claim_mode=claim_mode
    )[-1]
    target = tmp_path / "target"
    plan = plan_rescale(
        str(source),
        str(target),
        [str(case.parallelism)],
        [str(tmp_path / "first")],
        max_parallelism=[str(case.max_parallelism)],
        format="canonical",
    )
    execute(plan)
    certificate = validate_published(
        str(source), str(target), InProcessTasks(), allow_prefixes=[str(tmp_path / "first")]
    )
    assert certificate.verdict == "complete"
    shutil.rmtree(tmp_path / "source")
    shutil.rmtree(tmp_path / "first", ignore_errors=True)
    restored_job = case.job.with_(
        parallelism=case.parallelism,
        max_parallelism=case.max_parallelism,
        backend=case.onto,
        configuration=case.restored_options or {},
    )
    verdict = flink.restore(target, first_job, restored_job, next_kind="canonical")
    assert verdict.ok, verdict
    assert verdict.comparisons["results"] > 0 or case.job.scenario == "churn", verdict


@pytest.mark.slow
@pytest.mark.parametrize("name", ["full-heap-timers", "full-checkpoint", "full-windows"])
def test_flink_continues_from_canonical_state_of_a_full_checkpoint_of_an_old_release(
    flink: Flink, tmp_path: Path, name: str
) -> None:
    """Before Flink 1.16 such checkpoints had canonical key groups, and stored timers of the heap twice."""
    target = tmp_path / "target"
    execute(
        plan_rescale(
            snapshots.directory(f"1.15.4-{name}"), str(target), ["3"], max_parallelism=["100"], format="canonical"
        )
    )
    document = json.loads((snapshots.FIXTURES / f"1.15.4-{name}" / "expected.json").read_text())
    job = Job(**document["job"])
    verdict = flink.restore(target, job, job.with_(parallelism=3, max_parallelism=100), next_kind="checkpoint")
    assert verdict.ok, verdict
    assert verdict.comparisons["results"] > 0 or job.scenario == "churn", verdict
