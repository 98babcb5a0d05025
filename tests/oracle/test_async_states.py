"""States of the asynchronous API, on the heap and in RocksDB, have the files of the older API and are rescaled like it.

Flink takes no canonical savepoint of such states, but restores one that Rescale writes. Rows of SQL that wait for an
asynchronous answer are state of the older API.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from oracle.cases import graph
from oracle.harness import Flink, Job
from oracle.test_canonical import ON_HEAP
from rescale.snapshot.reading.opening import open_snapshot
from support.diffing import diff
from support.pipeline import execute_without_spark, plan_rescale

STATES_JOB = graph("graphs.AsyncStates", 2)
SQL_JOB = graph("sql", 2, many_fields=1).with_(configuration={"table.exec.async-state.enabled": "true"})
WAITING_JOB = graph("graphs.Waiting", 2)


@dataclass(frozen=True)
class Case:
    """A snapshot of `job`, at parallelism 3 and `max_parallelism`, restored `onto` a backend."""

    job: Job
    backend: str
    max_parallelism: int
    format: str = "keep"
    onto: str = ""
    kind: str = "native"

    @property
    def name(self) -> str:
        parts = (
            self.job.scenario,
            self.kind,
            self.backend,
            str(self.max_parallelism),
            self.format,
            self.onto or self.backend,
        )
        return "-".join(parts)


CASES = (
    Case(STATES_JOB, "hashmap", 128),
    Case(STATES_JOB, "hashmap", 1000),
    Case(STATES_JOB, "hashmap", 1000, "rocksdb", "rocksdb"),
    Case(STATES_JOB, "hashmap", 1000, "canonical", "rocksdb"),
    Case(STATES_JOB, "rocksdb", 128),
    Case(STATES_JOB, "rocksdb", 1000),
    Case(STATES_JOB, "rocksdb", 1000, "canonical", "hashmap"),
    Case(STATES_JOB.with_(configuration=ON_HEAP), "rocksdb", 1000, kind="checkpoint"),
    Case(SQL_JOB, "hashmap", 1000),
    Case(SQL_JOB, "rocksdb", 1000),
    Case(WAITING_JOB, "hashmap", 1000),
    Case(WAITING_JOB, "hashmap", 37, "rocksdb", "rocksdb", kind="checkpoint"),
)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_flink_continues_from_rescaled_asynchronous_state(flink_2: Flink, tmp_path: Path, case: Case) -> None:
    job = case.job.with_(backend=case.backend)
    source = flink_2.snapshot(job, tmp_path / "source", case.kind)
    target = tmp_path / "target"
    execute_without_spark(
        plan_rescale(str(source), str(target), ["3"], max_parallelism=[str(case.max_parallelism)], format=case.format)
    )
    restored_job = job.with_(parallelism=3, max_parallelism=case.max_parallelism, backend=case.onto or case.backend)
    verdict = flink_2.restore(target, job, restored_job, next_kind=case.kind, keep=tmp_path / "again")
    assert verdict.ok, verdict
    assert verdict.comparisons["results"] > 50, verdict
    # Flink deletes a checkpoint when its job ends.
    snapshot_with_state = verdict.next_snapshot if case.kind == "native" else target
    assert diff(open_snapshot(str(source)), open_snapshot(str(snapshot_with_state))).equal


@pytest.mark.slow
def test_synchronous_job_restores_asynchronous_state_and_takes_canonical_savepoints(
    flink_2: Flink, tmp_path: Path
) -> None:
    job = SQL_JOB.with_(backend="rocksdb")
    source = flink_2.snapshot(job, tmp_path / "source", "native")
    assert flink_2.restore(source, job, job.with_(configuration={}), next_kind="canonical").ok
