"""Operators whose generated ids would change with the parallelism stop the run, and not the job."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rescale.airflow.job.job_tasks import look
from rescale.airflow.steps.retries import TaskEnded
from rescale.text.errors import RequestError
from support.deferring import TaskState, shared_by_the_run
from support.filled_forms import filled_of_job
from support.session_cluster import ONE_CHECKPOINT, SessionCluster, native_options, take_checkpoint


def look_at_job(
    cluster: SessionCluster, job_id: str, target: Path, parallelism: int, *arguments: str, entry_class: str = "Chains"
) -> Any:
    """Return the result of the first task of a run that would stop the job, and start the jar again."""
    places = {"savepoints": str(cluster.folder / "savepoints"), "target": str(target)}
    start = {"hand_over": "jar", "jar": cluster.jar, "entry_class": entry_class, "arguments": list(arguments)}
    fields = {"flink": cluster.address, "job": job_id, "taking": "stop", "parallelism": str(parallelism)}
    filled = filled_of_job(**fields, **places, **start)
    with shared_by_the_run(TaskState()):
        run = SimpleNamespace(dag_id="a-dag", run_id="a-run")
        return look.function(None, params=filled, dag=SimpleNamespace(params=filled), ti=run)


def running(cluster: SessionCluster, parallelism: int, *arguments: str) -> str:
    """Return the id of a job that has made a checkpoint."""
    job_id = cluster.run(
        parallelism, *arguments, main="Chains", options={**native_options(cluster, {}), **ONE_CHECKPOINT}
    )
    take_checkpoint(cluster, job_id)
    return job_id


def test_generated_ids_that_change_with_the_parallelism_stop_the_run_before_the_job(
    cluster: SessionCluster, tmp_path: Path
) -> None:
    job_id = running(cluster, 1)
    unknown = "at parallelism 2 the job has operators that are not in its state"
    with pytest.raises(TaskEnded, match=unknown) as ended:
        look_at_job(cluster, job_id, tmp_path / "target", 2)
    assert isinstance(ended.value.error, RequestError)
    assert "match the snapshot" in str(ended.value.error.advice)
    assert cluster.job(job_id).runs


def test_generated_ids_that_change_inside_of_a_chain_are_warned_of(
    cluster: SessionCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """At parallelism 1 the only vertex is that of the source, whose id stays; that of the map in its chain changes."""
    job_id = running(cluster, 2)
    assert look_at_job(cluster, job_id, tmp_path / "target", 1)["before"]["job_id"] == job_id
    assert "the job gets parallelism 1" in " ".join(caplog.messages)


@pytest.mark.parametrize(("old", "new"), [(1, 2), (2, 1), (2, 3)])
def test_operators_with_uids_keep_their_ids(
    cluster: SessionCluster, tmp_path: Path, old: int, new: int, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = running(cluster, old, "uids")
    assert look_at_job(cluster, job_id, tmp_path / "target", new, "uids")["before"]["job_id"] == job_id
    assert f"the jar keeps the ids of operators with state at parallelism {new}" in caplog.text


def test_another_version_of_the_jar_is_only_warned_of(
    cluster: SessionCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = running(cluster, 2, "uids")
    assert look_at_job(cluster, job_id, tmp_path / "target", 3)["before"]["job_id"] == job_id
    assert "the jar has operators that the job's latest checkpoint does not have" in caplog.text


def test_a_jar_that_flink_cannot_plan_is_only_warned_of(
    cluster: SessionCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = running(cluster, 1, "uids")
    assert look_at_job(cluster, job_id, tmp_path / "target", 2, entry_class="NoSuchClass")["before"]["job_id"] == job_id
    assert "the ids of its operators are not checked" in caplog.text
