"""Cleared tasks of a run that has stopped its job go on with this job; those of an old run leave the job alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.airflow_server import AirflowServer, Run
from support.session_cluster import SessionCluster, wait_until

pytestmark = pytest.mark.slow

_JOB = "cleared"


@pytest.fixture
def begin(airflow: AirflowServer, cluster: SessionCluster, tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Yield a function that begins a run; all runs rescale the only job of the cluster."""
    cluster.clear()
    cluster.run(5, "0", _JOB)  # with five splits: a subtask without one would finish

    def begin_run(parallelism: int, **more: Any) -> Run:
        form = {
            "flink": cluster.address,
            "job": _JOB,
            "savepoints": str(cluster.folder / "savepoints"),
            "target": str(tmp_path / f"rescaled-{parallelism}"),
            "parallelism": parallelism,
            "taking": "stop",
            "hand_over": "jar",
            "jar": cluster.jar,
            "entry_class": "Counts",
            "arguments": ["0", _JOB],
            **more,
        }
        return airflow.trigger_dag("rescale_job", form, dag_run_id=f"fails-nothing-{parallelism}-{tmp_path.name}")

    yield begin_run
    cluster.clear()


def assert_runs(cluster: SessionCluster, run: Run, parallelism: int) -> None:
    """Check that the job that the run has started is the only one, and counts."""
    job_id = run.xcom("hand_over")["job"]
    assert cluster.alive() == {job_id}
    assert cluster.job(job_id).parallelism == parallelism
    wait_until(lambda: cluster.is_counting(job_id), "the job to count on")


def test_run_whose_tasks_are_all_cleared_while_its_job_is_stopped_goes_on(
    begin: Callable[..., Run], cluster: SessionCluster
) -> None:
    run = begin(2, require_approval=True)
    run.question()
    assert cluster.alive() == set()
    tries = run.task("approve")["try_number"]
    run.clear(only_failed=False)
    run.wait_for_task("look_at_job", "success")
    assert "and goes on with it" in run.log_text("look_at_job")
    wait_until(lambda: run.task("approve")["try_number"] > tries, "the question to be asked again")
    run.question()
    run.answer("Approve")
    assert run.end() == "success", run.states()
    assert_runs(cluster, run, 2)


@pytest.mark.parametrize("task_id", ["take_savepoint", "hand_over", "go_back"])
def test_cleared_task_of_an_old_run_starts_no_second_job(
    begin: Callable[..., Run], cluster: SessionCluster, task_id: str
) -> None:
    """Another run has taken over the job that the old one had started."""
    old = begin(2)
    assert old.end() == "success", old.states()
    new = begin(1)
    assert new.end() == "success", new.states()
    assert_runs(cluster, new, 1)
    old.clear_task(task_id)
    ended = old.wait_for_task(task_id, "success", "failed", "skipped", "upstream_failed")["state"]
    assert ended == ("skipped" if task_id == "go_back" else "upstream_failed"), old.states()
    if task_id != "go_back":
        assert "this run has already handed its job over" in old.log_text("look_at_job")
    old.end()
    assert_runs(cluster, new, 1)
