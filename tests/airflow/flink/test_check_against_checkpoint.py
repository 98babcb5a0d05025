"""A misspelt operator of a real job is refused while the job runs, because its latest checkpoint has the names."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rescale.airflow.job.job_tasks import look
from rescale.airflow.steps.retries import TaskEnded
from rescale.flink.operator_id import operator_id_of_uid
from rescale.text.errors import RequestError
from support.deferring import TaskState, shared_by_the_run
from support.filled_forms import filled_of_job
from support.session_cluster import ONE_CHECKPOINT, SessionCluster, native_options, take_checkpoint


def look_at_job(cluster: SessionCluster, job_id: str, target: Path, **values: Any) -> Any:
    """Return the result of the first task of a run that would stop the job."""
    places = {"savepoints": str(cluster.folder / "savepoints"), "target": str(target)}
    start = {"taking": "stop", "hand_over": "jar", "jar": cluster.jar, "entry_class": "Counts"}
    filled = filled_of_job(flink=cluster.address, job=job_id, **places, **start, **values)
    with shared_by_the_run(TaskState()):
        run = SimpleNamespace(dag_id="a-dag", run_id="a-run")
        return look.function(None, params=filled, dag=SimpleNamespace(params=filled), ti=run)


def test_misspelt_operator_is_refused_before_the_job_is_stopped(
    cluster: SessionCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = cluster.run(2, options={**native_options(cluster, {}), **ONE_CHECKPOINT})
    take_checkpoint(cluster, job_id)
    for misspelt in (
        {"operators": {"count": {"parallelism": 3}}},
        {"drops": ["count"], "require_approval": True},
        {"state_drops": ["counts:counts"], "require_approval": True},
    ):
        with pytest.raises(TaskEnded, match="latest checkpoint; the job was not stopped") as ended:
            look_at_job(cluster, job_id, tmp_path / "target", **misspelt)
        assert isinstance(ended.value.error, RequestError)
        assert f"/{job_id}/chk-" in str(ended.value.error.path)
        sentence = f"{ended.value.error.expected} {ended.value.error.operator}"
        assert "counts" in sentence or operator_id_of_uid("counts") in sentence
    assert cluster.job(job_id).runs
    valid_fields = {"operators": {"counts": {"parallelism": 3}}, "max_parallelism": 1000}
    assert look_at_job(cluster, job_id, tmp_path / "target", **valid_fields)["before"]["job_id"] == job_id
    assert "the request can be carried out, as far as the job's latest checkpoint shows" in caplog.text


@pytest.mark.slow
def test_request_is_not_checked_without_a_readable_checkpoint(
    cluster: SessionCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = cluster.run(2)
    assert look_at_job(cluster, job_id, tmp_path / "target", operators={"count": {"parallelism": 3}})
    assert "the request cannot be checked before the savepoint is planned" in caplog.text
    assert "the job has made no checkpoint since it was started" in caplog.text
