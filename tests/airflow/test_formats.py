"""RocksDB's own files come out of a run, whatever is asked of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rescale.snapshot.opening import open_snapshot
from support.airflow_server import AirflowServer, request
from support.snapshots import directory

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    ("more", "said"), [({"format": "rocksdb", "max_parallelism": 64}, ""), ({"files": "refer"}, "referred to")]
)
def test_a_run_publishes_rocksdb_directories(
    airflow: AirflowServer, tmp_path: Path, more: dict[str, Any], said: str
) -> None:
    source, target = directory("2-rocksdb-3to2"), str(tmp_path / "rescaled")
    run = airflow.trigger(**request(source, target, parallelism=3, **more))
    assert run.end() == "success", run.states()
    operators = open_snapshot(target, [source]).operators
    assert {len(operator.databases) for operator in operators} == {0, 3}
    assert said in run.told("plan")
