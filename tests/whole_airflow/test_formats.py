"""Runs publish RocksDB directories in every format that is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rescale.runstate.certificate import read_certificate
from rescale.snapshot.reading.opening import open_snapshot
from support.airflow_server import AirflowServer, request
from support.snapshots import directory

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("2-rocksdb-3to2", {"format": "rocksdb", "max_parallelism": 64}, ""),
        ("2-rocksdb-3to2", {"files": "refer", "proof": "files"}, "3 RocksDB directories are compared by their files"),
        ("2-changelog-over-rocksdb", {"max_parallelism": 100}, ""),
    ],
)
def test_run_publishes_rocksdb_directories(
    airflow: AirflowServer, tmp_path: Path, name: str, more: dict[str, Any], message: str
) -> None:
    source, target = directory(name), str(tmp_path / "rescaled")
    run = airflow.trigger(**request(source, target, parallelism=3, **more))
    assert run.end() == "success", run.states()
    operators = open_snapshot(target, [source]).operators
    assert {len(operator.databases) for operator in operators} == {0, 3}
    assert message in run.log_text("plan")
    certificate = read_certificate(target)
    assert certificate.proof == more.get("proof", "records")


def test_proof_by_files_of_state_without_directories_is_refused_with_the_plan(
    airflow: AirflowServer, tmp_path: Path
) -> None:
    target = tmp_path / "rescaled"
    run = airflow.trigger(**request(directory("2-canonical-rocksdb"), str(target), parallelism=3, proof="files"))
    assert run.end() == "failed", run.states()
    assert 'leave "Proof" out' in run.log_text("plan")
    assert not Path(f"{target}.rescale").exists()
