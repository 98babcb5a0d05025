"""A native savepoint of a real job is taken if it loses nothing, and otherwise refused before the job is stopped."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rescale.airflow.flink.inspection import inspect_job
from rescale.airflow.flink.operators import HandOverJob
from rescale.airflow.flink.stopping import JobToRestart
from rescale.airflow.hand_overs import RunJar
from rescale.airflow.job.canonical_savepoint import refuse_timers_on_heap
from rescale.airflow.job.job_operators import GoBack, TakeSavepoint
from rescale.airflow.job.latest_checkpoint import open_latest_checkpoint
from rescale.airflow.job.native_savepoint import check_native_savepoint
from rescale.flink.metadata.properties import SnapshotType
from rescale.flink.start import Start
from rescale.flink_rest.client import SavepointFormat, StopMode
from rescale.planning.request.request import make_request
from rescale.planning.request.result_files import Format
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import RequestError
from support.deferring import run_operator
from support.pipeline import execute_without_spark, plan_rescale
from support.s3 import S3Server
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


def run(cluster: SessionCluster, options: dict[str, str]) -> str:
    """Start the job and wait until every key has its timer."""
    job_id = cluster.run(2, main="Alarms", options=options)
    wait_until(lambda: cluster.fired_timers(job_id) >= 3 * KEYS, "timers to fire")
    return job_id


def why(cluster: SessionCluster, job_id: str, *maximum: str, name: str = "keep") -> str:
    request = make_request("/a", "/b", ["3"], max_parallelism=maximum, format=Format(name))
    with cluster.open() as flink:
        job = flink.job(job_id)
        assert job is not None
        return check_native_savepoint(flink, job, request, open_latest_checkpoint(flink, job, request))


def look(cluster: SessionCluster, options: dict[str, str]) -> JobToRestart:
    jar = RunJar(cluster.address, "counts.jar", "Alarms", configuration=options)
    folder = str(cluster.folder / "savepoints")
    return inspect_job(cluster.address, "alarms", StopMode.STOP, folder, jar, SavepointFormat.NATIVE)


def take(before: JobToRestart, run_id: str) -> Any:
    taken = run_operator(TakeSavepoint(task_id="take", old_job_document=msgspec.to_builtins(before)), run_id)
    assert open_snapshot(taken["savepoint"]).type is SnapshotType.NATIVE_SAVEPOINT
    return taken


def hand_over(before: JobToRestart, start: Start, run_id: str) -> Any:
    operator = HandOverJob(task_id="hand_over", start=start._asdict(), old_job_document=msgspec.to_builtins(before))
    return run_operator(operator, run_id)


def back(before: JobToRestart, taken: Any, run_id: str) -> Any:
    return run_operator(GoBack(task_id="back", old_job_document=msgspec.to_builtins(before), take_output=taken), run_id)


def rescaled(source: str, target: Path, *maximum: str) -> Start:
    plan = plan_rescale(source, str(target), ["3"], max_parallelism=maximum)
    execute_without_spark(plan)
    return plan.start


def misses_timers(cluster: SessionCluster, job_id: str) -> bool:
    with cluster.open() as flink:
        return "did not fire" in (flink.failure_messages(job_id) or "")


def shapes(cluster: SessionCluster, job_id: str) -> set[tuple[int, int]]:
    return {(vertex.parallelism, vertex.max_parallelism) for vertex in cluster.job(job_id).vertices}


@pytest.mark.parametrize("maximum", [(), ("256",)], ids=["parallelism", "max parallelism"])
@pytest.mark.slow
def test_timers_in_rocksdb_are_restored_in_the_new_shape_and_the_old(
    cluster: SessionCluster, tmp_path: Path, maximum: tuple[str, ...]
) -> None:
    options = {**native_options(cluster, ROCKSDB), **ONE_CHECKPOINT}
    job_id = run(cluster, options)
    take_checkpoint(cluster, job_id)
    clause = why(cluster, job_id, *maximum)
    assert re.match(
        r"EmbeddedRocksDBStateBackend has no timers on the heap, those of .* are in RocksDB, as .*chk-", clause
    )
    before = look(cluster, options)
    taken = take(before, "native")
    new = hand_over(before, rescaled(taken["savepoint"], tmp_path / "result", *maximum), "native")["job"]
    assert shapes(cluster, new) == {(3, int(maximum[0]) if maximum else 128)}
    wait_until(lambda: cluster.fired_timers(new) >= 3 * KEYS, "restored timers to fire")
    old = back(before, taken, "native")
    assert Path(old["restored_from"].removeprefix("file:")) == Path(taken["savepoint"])
    assert shapes(cluster, old["job"]) == {(2, 128)}
    wait_until(lambda: cluster.fired_timers(old["job"]) >= 3 * KEYS, "restored timers to fire")


@pytest.mark.slow
def test_timers_on_the_heap_are_refused_while_the_job_runs(cluster: SessionCluster) -> None:
    job_id = run(cluster, {**native_options(cluster, HEAP_TIMERS), **ONE_CHECKPOINT})
    take_checkpoint(cluster, job_id)
    with pytest.raises(RequestError, match="would lose timers of this job, which keeps them on the heap") as caught:
        why(cluster, job_id)
    assert "canonical" in str(caught.value.advice)
    assert cluster.job(job_id).runs


@pytest.mark.slow
def test_native_savepoint_of_a_job_with_timers_on_the_heap_loses_them(cluster: SessionCluster) -> None:
    options = {**native_options(cluster, HEAP_TIMERS), **ONE_CHECKPOINT}
    run(cluster, options)
    before = look(cluster, options)
    old = back(before, take(before, "lost"), "lost")["job"]
    wait_until(lambda: misses_timers(cluster, old), "the job to miss its timers")
    assert cluster.fired_timers(old) == 0


@pytest.mark.slow
def test_result_in_rocksdb_loses_timers_that_the_job_keeps_on_the_heap(cluster: SessionCluster, tmp_path: Path) -> None:
    options = {**native_options(cluster, HEAP_TIMERS), **ONE_CHECKPOINT}
    job_id = run(cluster, options)
    take_checkpoint(cluster, job_id)
    request = make_request("/a", "/b", ["3"], format=Format.ROCKSDB)
    with cluster.open() as flink, pytest.raises(RequestError, match="the new job would lose its timers"):
        refuse_timers_on_heap(open_latest_checkpoint(flink, cluster.job(job_id), request), request)
    before = msgspec.structs.replace(look(cluster, options), savepoint_format=SavepointFormat.CANONICAL)
    taken = run_operator(TakeSavepoint(task_id="take", old_job_document=msgspec.to_builtins(before)), "in rocksdb")
    plan = plan_rescale(taken["savepoint"], str(tmp_path / "result"), ["3"], format="rocksdb")
    execute_without_spark(plan)
    new = hand_over(before, plan.start, "in rocksdb")["job"]
    wait_until(lambda: misses_timers(cluster, new), "the job to miss its timers")
    assert cluster.fired_timers(new) == 0


@pytest.mark.parametrize("maximum", [128, 256])
@pytest.mark.slow
def test_state_of_the_hashmap_backend_is_restored_in_the_new_shape(
    cluster: SessionCluster, tmp_path: Path, maximum: int
) -> None:
    options = {**native_options(cluster, {}), **ONE_CHECKPOINT}
    job_id = run(cluster, options)
    assert why(cluster, job_id, "128") == "HashMapStateBackend writes timers like all other state"
    take_checkpoint(cluster, job_id)
    for max_parallelism, name in ((["256"], "keep"), ([], "canonical"), ([], "rocksdb")):
        assert "and its records can be read, as " in why(cluster, job_id, *max_parallelism, name=name)
    before = look(cluster, options)
    result = rescaled(take(before, f"heap-{maximum}")["savepoint"], tmp_path / "result", str(maximum))
    new = hand_over(before, result, f"heap-{maximum}")["job"]
    assert shapes(cluster, new) == {(3, maximum)}
    wait_until(lambda: cluster.fired_timers(new) >= 3 * KEYS, "restored timers to fire")


@pytest.mark.slow
def test_native_savepoint_is_refused_without_a_readable_checkpoint(cluster: SessionCluster) -> None:
    without_checkpoint = cluster.run(2, main="Alarms", options=ROCKSDB)
    with pytest.raises(RequestError, match="it is unknown") as caught:
        why(cluster, without_checkpoint)
    assert caught.value.found == "the job has made no checkpoint since it was started"
    in_memory = cluster.run(2, main="Alarms", options={**ROCKSDB, **ONE_CHECKPOINT})
    take_checkpoint(cluster, in_memory)
    with pytest.raises(RequestError, match="it is unknown") as caught:
        why(cluster, in_memory)
    assert "cannot be read" in str(caught.value.found)
    assert cluster.alive() == {without_checkpoint, in_memory}


@pytest.mark.slow
def test_checkpoint_in_s3_is_read(cluster: SessionCluster, s3: S3Server) -> None:
    bucket = s3.new_bucket("checkpoints")
    place = {**ONE_CHECKPOINT, "state.checkpoints.dir": f"s3a://{bucket}/checkpoints"}
    in_rocksdb, on_heap = (run(cluster, {**backend, **place}) for backend in (ROCKSDB, HEAP_TIMERS))
    for job_id in (in_rocksdb, on_heap):
        take_checkpoint(cluster, job_id)
    assert f"are in RocksDB, as s3://{bucket}/checkpoints/{in_rocksdb}/chk-" in why(cluster, in_rocksdb)
    with pytest.raises(RequestError, match="which keeps them on the heap"):
        why(cluster, on_heap)


@pytest.mark.slow
def test_changelog_is_refused(cluster: SessionCluster) -> None:
    changelog = {"state.changelog.enabled": "true", "state.changelog.storage": "filesystem"}
    place = {"state.changelog.dstl.dfs.base-path": str(cluster.folder / "changelog")}
    job_id = cluster.run(2, main="Alarms", options=native_options(cluster, {**ROCKSDB, **changelog, **place}))
    with pytest.raises(RequestError, match="native savepoints of this state backend are not supported") as caught:
        why(cluster, job_id)
    assert "with a changelog" in str(caught.value.found)
