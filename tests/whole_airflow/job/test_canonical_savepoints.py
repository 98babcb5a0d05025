"""A job of a real Flink with asynchronous state, which a canonical savepoint would make fail: the run ends before."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.airflow_server import AirflowServer
from support.session_cluster import SessionCluster

pytestmark = pytest.mark.slow


def test_asynchronous_state_ends_the_run_before_the_job_is_stopped(
    airflow: AirflowServer, cluster: SessionCluster, tmp_path: Path
) -> None:
    cluster.clear()
    job_id = cluster.run(2, main="AsyncCounts")
    form = {
        "flink": cluster.address,
        "job": job_id,
        "savepoints": str(cluster.folder / "savepoints"),
        "target": str(tmp_path / "target"),
        "parallelism": 3,
    }
    run = airflow.trigger_dag("rescale_job", form, dag_run_id=f"asynchronous-{job_id}")
    assert run.end() == "failed"
    assert run.states()["look_at_job"] == "failed"
    log = run.log_text("look_at_job")
    assert "Flink cannot take a canonical savepoint of this job" in log
    assert "asynchronous state of counts" in log
    assert 'choose "native" as the format of the savepoint' in log
    assert cluster.job(job_id).runs
    cluster.clear()
