"""A checkpoint that Flink cannot restore, because its files lie in a claimed savepoint, is repaired as advised."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from oracle.harness import Flink, FlinkError, Job
from oracle.test_copies import INCREMENTAL
from rescale.snapshot.findings import findings
from rescale.snapshot.reading.opening import open_snapshot

JOB = Job("churn", 2, {"seed": 3, "keys": 40}, max_parallelism=128, backend="rocksdb", configuration=INCREMENTAL)


def test_checkpoint_is_restored_after_copying_files_of_a_claimed_savepoint(flink: Flink, tmp_path: Path) -> None:
    savepoint = flink.snapshot(JOB, tmp_path / "savepoint", "native")
    checkpoint = flink.snapshots(JOB, tmp_path / "job", "checkpoint", restored=savepoint, claim_mode="CLAIM")[-1]
    warnings = findings(open_snapshot(str(checkpoint)))
    assert "after a restore in CLAIM mode" in warnings[0]
    with pytest.raises(FlinkError):
        flink.restore(checkpoint, JOB, JOB)
    for uri in open_snapshot(str(checkpoint)).missing_files:
        shutil.copy(savepoint / Path(uri).name, uri)
    assert not any("CLAIM" in finding for finding in findings(open_snapshot(str(checkpoint))))
    verdict = flink.restore(checkpoint, JOB, JOB, next_kind="checkpoint")
    assert verdict.ok, verdict
