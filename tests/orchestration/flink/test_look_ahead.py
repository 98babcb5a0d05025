"""Of a real job a misspelt operator is refused while it runs, as its latest checkpoint shows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.definitions.param import ParamsDict

from rescale.errors import RequestError
from rescale.flink.operator_id import operator_id_of_uid
from rescale.orchestration.job.job_tasks import look
from rescale.orchestration.job_form import job_form
from rescale.orchestration.steps.attempts import TaskEnded
from support.native_jobs import has_checkpoint, native_options
from support.session_cluster import SessionCluster, wait_until

pytestmark = pytest.mark.timeout(300)


def looked(cluster: SessionCluster, job_id: str, target: Path, **values: Any) -> Any:
    """What the first task of a run gives that would stop the job."""
    params = ParamsDict(job_form())
    places = {"savepoints": str(cluster.folder / "savepoints"), "target": str(target)}
    start = {"taking": "stop", "hand_over": "jar", "jar": cluster.jar, "entry_class": "Counts"}
    params.update({"flink": cluster.address, "job": job_id, **places, **start, **values})
    filled = dict(params.validate())
    return look.function(None, params=filled, dag=SimpleNamespace(params=filled))


def test_a_misspelt_operator_stops_the_run_and_not_the_job(
    cluster: SessionCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = cluster.run(2, options=native_options(cluster, {}))
    wait_until(lambda: has_checkpoint(cluster, job_id), "a checkpoint")
    for misspelt in (
        {"operators": {"count": {"parallelism": 3}}},
        {"drops": ["count"], "require_approval": True},
        {"state_drops": ["counts:counts"], "require_approval": True},
    ):
        with pytest.raises(TaskEnded, match="latest checkpoint shows, and nothing was stopped") as ended:
            looked(cluster, job_id, tmp_path / "target", **misspelt)
        assert isinstance(ended.value.error, RequestError)
        assert f"/{job_id}/chk-" in str(ended.value.error.path)
        told = f"{ended.value.error.expected} {ended.value.error.operator}"
        assert "counts" in told or operator_id_of_uid("counts") in told
    assert cluster.job(job_id).runs
    rightly = {"operators": {"counts": {"parallelism": 3}}, "max_parallelism": 1000}
    assert looked(cluster, job_id, tmp_path / "target", **rightly)["before"]["job_id"] == job_id
    assert "nothing in the job's latest checkpoint stands against what is asked for" in caplog.text


@pytest.mark.slow
def test_without_a_checkpoint_that_can_be_read_the_job_is_stopped_as_ever(
    cluster: SessionCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = cluster.run(2)
    assert looked(cluster, job_id, tmp_path / "target", operators={"count": {"parallelism": 3}})
    assert "only the plan of the savepoint will tell" in caplog.text
    assert "it has made no checkpoint since it was started" in caplog.text
