"""Savepoints of Flink's State Processor API are rescaled, and the API reads and extends the results of Rescale."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.distribution import LINES, STATE_PROCESSORS
from oracle.harness import Flink
from rescale.flink.metadata.properties import SnapshotType
from rescale.snapshot.reading.opening import open_snapshot
from support.bootstrapping import bootstrapped, expected_lines, read_savepoint, write_savepoint
from support.pipeline import execute_without_spark, plan_rescale
from support.slow import gate, slow


@pytest.fixture
def flink(request: pytest.FixtureRequest) -> Iterator[Flink]:
    with Flink(LINES[request.param], processor=STATE_PROCESSORS[request.param]) as flink:
        yield flink


@pytest.mark.parametrize(("flink", "backend"), [slow("1.20", "hashmap"), gate("2", "rocksdb")], indirect=["flink"])
def test_bootstrapped_state_is_rescaled_and_bootstrapped_again(flink: Flink, tmp_path: Path, backend: str) -> None:
    source, target, extended = (tmp_path / name for name in ("source", "target", "again"))
    job = bootstrapped(users=400, max_parallelism=128).with_(backend=backend)
    rescaled_job = job.with_(parallelism=3, max_parallelism=1000)
    write_savepoint(flink, job, source)
    snapshot = open_snapshot(str(source))
    assert snapshot.type is SnapshotType.UNKNOWN
    assert sorted(operator.parallelism for operator in snapshot.operators) == [1, 2, 2]
    execute_without_spark(plan_rescale(str(source), str(target), ["3"], max_parallelism=["1000"]))
    assert any("-keyed-" in path.name for path in target.iterdir()), "keyed state was not written to files"
    verdict = flink.restore(target, job, rescaled_job, per_subtask=True, next_kind="canonical")
    assert verdict.ok, verdict
    assert all(verdict.comparisons[kind] for kind in ("keyed", "split", "union", "broadcast", "results")), verdict
    assert read_savepoint(flink, rescaled_job, target) == expected_lines(flink, job)
    write_savepoint(flink, rescaled_job, extended, base=target)
    verdict = flink.restore(extended, job, rescaled_job)
    assert verdict.ok, verdict
