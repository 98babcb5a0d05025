"""A job of a real session cluster: its savepoint is taken and rescaled, and the job is handed over or started again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException

from rescale.airflow.flink.inspection import inspect_job
from rescale.airflow.flink.operators import HandOverJob
from rescale.airflow.flink.stopping import JobToRestart
from rescale.airflow.hand_overs import Print, RunJar
from rescale.airflow.job.job_operators import GoBack, TakeSavepoint
from rescale.airflow.steps.retries import TaskEnded
from rescale.flink.start import Start
from rescale.flink_rest.client import Flink, StopMode
from rescale.flink_rest.running_job import JobOverview
from rescale.text.errors import RequestError, StoreError
from support.deferring import run_operator
from support.pipeline import execute_without_spark, plan_rescale
from support.s3 import S3Server
from support.session_cluster import SessionCluster, wait_until


def jar_of(cluster: SessionCluster, *arguments: str) -> RunJar:
    return RunJar(cluster.address, "counts.jar", "Counts", arguments)


def look(cluster: SessionCluster, taking: StopMode, *arguments: str, savepoints: str | None = None) -> JobToRestart:
    directory = savepoints or str(cluster.folder / "savepoints")
    return inspect_job(cluster.address, "counts", taking, directory, jar_of(cluster, *arguments))


def take(before: JobToRestart, run_id: str) -> Any:
    return run_operator(TakeSavepoint(task_id="take", old_job_document=msgspec.to_builtins(before)), run_id)


def hand_over(before: JobToRestart, start: Start, run_id: str, parallelism: int | None = None) -> Any:
    arguments = {"old_job_document": msgspec.to_builtins(before), "parallelism": parallelism}
    return run_operator(HandOverJob(task_id="hand_over", start=start._asdict(), **arguments), run_id)


def back(before: JobToRestart, savepoint: Any, run_id: str) -> Any:
    return run_operator(
        GoBack(task_id="back", old_job_document=msgspec.to_builtins(before), take_output=savepoint), run_id
    )


def rescaled(source: str, target: Path | str) -> Start:
    plan = plan_rescale(source, str(target), ["3"], max_parallelism=["256"])
    execute_without_spark(plan)
    return plan.start


def shapes(cluster: SessionCluster, job_id: str) -> set[tuple[int, int]]:
    return {(vertex.parallelism, vertex.max_parallelism) for vertex in cluster.job(job_id).vertices}


def savepoints(cluster: SessionCluster) -> int:
    return len(list((cluster.folder / "savepoints").glob("*/savepoint-*/_metadata")))


@pytest.mark.slow
def test_savepoint_of_a_job_that_runs_on_is_taken_once(cluster: SessionCluster) -> None:
    job_id, before = cluster.run(2), savepoints(cluster)
    savepoint = take(look(cluster, StopMode.RUN_ON), "run-on")
    assert savepoint["state"] == "RUNNING"
    assert (Path(savepoint["savepoint"]) / "_metadata").is_file()
    assert take(look(cluster, StopMode.RUN_ON), "run-on") == savepoint, "a retry finds it"
    assert savepoints(cluster) == before + 1
    assert take(look(cluster, StopMode.RUN_ON), "another run")["savepoint"] != savepoint["savepoint"]
    assert cluster.alive() == {job_id}
    with pytest.raises(TaskEnded, match="the job still runs, so a second one would do the same work twice"):
        hand_over(look(cluster, StopMode.RUN_ON), Start(savepoint["savepoint"], 3, None), "run-on")
    with pytest.raises(AirflowSkipException, match="the run does not stop the job"):
        back(look(cluster, StopMode.RUN_ON), savepoint, "run-on")


def test_stopped_job_is_started_in_its_new_shape_from_the_result(cluster: SessionCluster, tmp_path: Path) -> None:
    cluster.run(2)
    before = look(cluster, StopMode.STOP)
    assert (before.name, before.parallelism) == ("counts", 2)
    savepoint = take(before, "story")
    assert cluster.job(before.job_id).state == "FINISHED"
    start = rescaled(savepoint["savepoint"], tmp_path / "result")
    started = hand_over(before, start, "story")
    assert Path(started["restored_from"].removeprefix("file:")) == tmp_path / "result"
    assert shapes(cluster, started["job"]) == {(3, 256)}
    assert hand_over(before, start, "story") == started, "a retry finds it"
    assert cluster.alive() == {started["job"]}


@pytest.mark.slow
def test_job_is_stopped_into_s3_and_started_from_s3(cluster: SessionCluster, s3: S3Server) -> None:
    cluster.run(1)
    bucket = s3.new_bucket("jobs")
    before = look(cluster, StopMode.STOP, savepoints=f"s3a://{bucket}/savepoints")
    savepoint = take(before, "s3")
    assert savepoint["savepoint"].startswith(f"s3://{bucket}/savepoints/rescale-")
    start = rescaled(savepoint["savepoint"], f"s3://{bucket}/result")
    started = hand_over(
        before, start._replace(parallelism=4), "s3", parallelism=3
    )  # the parallelism of the job, not the largest of its operators
    assert (started["restored_from"], shapes(cluster, started["job"])) == (f"s3://{bucket}/result", {(3, 256)})
    wait_until(lambda: cluster.is_counting(started["job"]), "the job to go on counting")
    old = back(before, savepoint, "s3")
    assert (old["restored_from"], shapes(cluster, old["job"])) == (savepoint["savepoint"], {(1, 128)})
    wait_until(lambda: cluster.is_counting(old["job"]), "the job to go on counting")


@pytest.mark.slow
def test_only_one_of_two_runs_stops_a_job(cluster: SessionCluster, tmp_path: Path) -> None:
    cluster.run(2)
    before = look(cluster, StopMode.STOP)
    savepoint = take(before, "first")
    with pytest.raises(TaskEnded, match=r"(?s)the job has ended without a savepoint of this run.*another run"):
        take(before, "second")
    with pytest.raises(TaskEnded, match=r"(?s)and Flink knows no savepoint of this run.*another run"):
        back(before, None, "second")
    assert cluster.alive() == set()
    started = hand_over(before, rescaled(savepoint["savepoint"], tmp_path / "result"), "first")
    assert cluster.alive() == {started["job"]}


@pytest.mark.slow
def test_failed_hand_over_goes_back_to_the_source(cluster: SessionCluster, tmp_path: Path) -> None:
    cluster.run(2)
    before = look(cluster, StopMode.CANCEL, "128")  # a maximum in the code, which no configuration overrides
    savepoint = take(before, "fails")
    assert cluster.job(before.job_id).state == "CANCELED"
    with pytest.raises(TaskEnded, match=r"(?s)the job did not start from the snapshot.*FAILED.*max parallelism"):
        hand_over(before, rescaled(savepoint["savepoint"], tmp_path / "result"), "fails")
    assert cluster.alive() == set()
    old = back(before, savepoint, "fails")
    assert Path(old["restored_from"].removeprefix("file:")) == Path(savepoint["savepoint"])
    assert shapes(cluster, old["job"]) == {(2, 128)}
    assert back(before, savepoint, "fails") == old, "a retry finds it"
    with pytest.raises(TaskEnded, match="the job still runs, so a second one would do the same work twice"):
        hand_over(before, Start(savepoint["savepoint"], 3, None), "fails")
    assert cluster.alive() == {old["job"]}


@pytest.mark.slow
def test_going_back_cancels_the_new_job_and_finds_the_savepoint(cluster: SessionCluster, tmp_path: Path) -> None:
    cluster.run(2)
    before = look(cluster, StopMode.STOP)
    savepoint = take(before, "lost")
    new = hand_over(before, rescaled(savepoint["savepoint"], tmp_path / "result"), "lost")
    old = back(before, None, "lost")
    assert old["restored_from"].endswith(savepoint["savepoint"].rpartition("/")[2])
    assert cluster.alive() == {old["job"]}
    with cluster.open() as flink:
        job = flink.job_overview(new["job"])
    assert job is not None
    assert job.state == "CANCELED"


@pytest.mark.slow
def test_failed_savepoint_leaves_the_job_running_and_the_next_try_takes_another(
    cluster: SessionCluster,
) -> None:
    job_id = cluster.run(2)
    blocked = cluster.folder / "blocked"
    blocked.write_text("a file where the directory should be")
    before = inspect_job(cluster.address, job_id, StopMode.STOP, str(blocked), jar_of(cluster))
    with pytest.raises(TaskEnded, match="Flink could not take the savepoint") as ended:
        take(before, "blocked")
    assert not ended.value.error.is_final
    wait_until(lambda: cluster.job(job_id).runs, "the job to go on")
    with pytest.raises(AirflowSkipException, match="the job was not stopped, and still runs"):
        back(before, None, "blocked")
    blocked.unlink()
    assert take(before, "blocked")["state"] == "FINISHED"


def test_restarting_job_raises_store_error_and_ended_job_request_error(
    cluster: SessionCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = cluster.run(1)
    with monkeypatch.context() as patched:
        patched.setattr(Flink, "jobs", lambda *_: [JobOverview(job_id, "counts", "RESTARTING")])
        with pytest.raises(StoreError, match="the job is not running at the moment"):
            look(cluster, StopMode.STOP)
    cluster.clear()
    with pytest.raises(RequestError, match=r"(?s)the job has ended.*CANCELED.*the name of the job"):
        inspect_job(cluster.address, job_id, StopMode.STOP, str(cluster.folder), jar_of(cluster))


@pytest.mark.slow
def test_contradictory_hand_over_is_refused_before_the_job_is_stopped(cluster: SessionCluster) -> None:
    job_id = cluster.run(1)
    folder = str(cluster.folder)
    with pytest.raises(RequestError, match="could not start it again"):
        inspect_job(cluster.address, job_id, StopMode.STOP, folder, Print())
    with pytest.raises(RequestError, match="the jar is not uploaded") as caught:
        inspect_job(cluster.address, job_id, StopMode.STOP, folder, RunJar(cluster.address, "other.jar"))
    assert "counts.jar" in str(caught.value)
    twice = RunJar(cluster.address, "counts.jar", configuration={"pipeline.max-parallelism": "256"})
    with pytest.raises(RequestError, match="set the max parallelism, which the plan sets"):
        inspect_job(cluster.address, job_id, StopMode.STOP, folder, twice)
    with pytest.raises(RequestError, match="there is no such job") as caught:
        inspect_job(cluster.address, "nobody", StopMode.STOP, folder, jar_of(cluster))
    assert f"counts ({job_id})" in str(caught.value)
    assert inspect_job(cluster.address, job_id, StopMode.RUN_ON, folder, Print()).job_id == job_id
    cluster.run(1)
    with pytest.raises(RequestError, match="several jobs have this name"):
        look(cluster, StopMode.STOP)
    assert len(cluster.alive()) == 2
