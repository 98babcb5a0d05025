"""Jobs of a real Flink that are stopped with a native savepoint: their timers are restored, or nothing is stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rescale.flink.metadata.properties import SnapshotType
from rescale.snapshot.reading.opening import open_snapshot
from rescale.storage.locations import contains, normalise
from support.airflow_server import AirflowServer, Run
from support.session_cluster import (
    HEAP_TIMERS,
    KEYS,
    ONE_CHECKPOINT,
    ROCKSDB,
    SessionCluster,
    native_options,
    take_checkpoint,
    wait_until,
)

pytestmark = pytest.mark.slow


class JobRun(NamedTuple):
    """A run, and the job that it rescales."""

    run: Run
    job_id: str


@pytest.fixture(scope="module")
def job_runs(
    airflow: AirflowServer, cluster: SessionCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, JobRun]]:
    """Begin all runs at once; the run `fails-publish-…` fails in the task `publish`, after a proof by files.

    All runs have ended before other tests use the cluster, including runs whose tests another worker has.
    """
    cluster.clear()
    targets = tmp_path_factory.mktemp("targets")

    def begin(name: str, backend: dict[str, str], **more: Any) -> JobRun:
        options = {**native_options(cluster, backend), **ONE_CHECKPOINT}
        job_id = cluster.run(2, main="Alarms", options=options)
        wait_until(lambda: cluster.fired_timers(job_id) >= KEYS, "timers to fire")
        take_checkpoint(cluster, job_id)
        form: dict[str, Any] = {
            "flink": cluster.address,
            "job": job_id,
            "savepoints": str(cluster.folder / "savepoints"),
            "savepoint_format": "native",
            "target": str(targets / name),
            "parallelism": 3,
            "taking": "stop",
            "hand_over": "jar",
            "jar": "counts.jar",
            "entry_class": "Alarms",
            "flink_options": options,
            **more,
        }
        return JobRun(airflow.trigger_dag("rescale_job", form, dag_run_id=f"{name}-{job_id}"), job_id)

    job_runs = {
        "native": begin("native", ROCKSDB, max_parallelism=256),
        "fails-publish": begin("fails-publish", ROCKSDB, files="refer", proof="files"),
        "heap": begin("heap", HEAP_TIMERS, max_parallelism=256),
        "hashmap": begin("hashmap", {}, max_parallelism=256),
    }
    yield job_runs
    for job_run in job_runs.values():
        job_run.run.end()
    cluster.clear()


@pytest.fixture
def await_end(job_runs: dict[str, JobRun]) -> Callable[[str], tuple[JobRun, str]]:
    def run_and_state(name: str) -> tuple[JobRun, str]:
        return job_runs[name], job_runs[name].run.end()

    return run_and_state


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("native", "EmbeddedRocksDBStateBackend has no timers on the heap"),
        ("hashmap", "HashMapStateBackend writes timers like all other state, and its records can be read"),
    ],
)
def test_timers_are_restored_in_the_new_shape(
    await_end: Callable[[str], tuple[JobRun, str]], cluster: SessionCluster, name: str, why: str
) -> None:
    (run, job_id), end = await_end(name)
    assert end == "success", run.states()
    assert f"a native savepoint loses nothing: {why}" in run.log_text("look_at_job")
    assert "triggered a native savepoint" in run.log_text("take_savepoint")
    assert open_snapshot(run.xcom("take_savepoint")["savepoint"]).type is SnapshotType.NATIVE_SAVEPOINT
    started = run.xcom("hand_over")
    assert Path(started["restored_from"].removeprefix("file:")) == Path(run.xcom("publish")["target"])
    vertices = cluster.job(started["job"]).vertices
    assert {(vertex.parallelism, vertex.max_parallelism) for vertex in vertices} == {(3, 256)}
    wait_until(lambda: cluster.fired_timers(started["job"]) >= 3 * KEYS, "restored timers to fire")
    assert cluster.job(job_id).has_ended


def test_job_goes_back_to_the_native_savepoint(
    await_end: Callable[[str], tuple[JobRun, str]], cluster: SessionCluster
) -> None:
    (run, job_id), end = await_end("fails-publish")
    assert end == "failed"
    assert (run.states()["publish"], run.states()["go_back"]) == ("failed", "success"), run.states()
    assert (run.xcom("validate")["verdict"], run.xcom("validate")["proof"]) == ("complete", "files")
    back = run.xcom("go_back")
    assert contains(run.xcom("take_savepoint")["savepoint"], normalise(back["restored_from"]))
    vertices = cluster.job(back["job"]).vertices
    assert {(vertex.parallelism, vertex.max_parallelism) for vertex in vertices} == {(2, 128)}
    wait_until(lambda: cluster.fired_timers(back["job"]) >= 3 * KEYS, "restored timers to fire")
    assert cluster.job(job_id).has_ended


def test_timers_on_the_heap_end_the_run_before_the_job_is_stopped(
    await_end: Callable[[str], tuple[JobRun, str]], cluster: SessionCluster
) -> None:
    (run, job_id), end = await_end("heap")
    assert end == "failed"
    assert run.states()["look_at_job"] == "failed"
    log = run.log_text("look_at_job")
    assert "a native savepoint would lose timers of this job" in log
    assert 'choose "canonical" as the format of the savepoint' in log
    assert cluster.job(job_id).runs
