"""The scheduler is killed in the middle of a cut-over, with or without the task: one job runs afterwards, never two."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rescale.storage.locations import contains, normalise
from support.airflow_server import AirflowServer, wait_for
from support.postgres import postgres, programs
from support.s3 import S3Server
from support.session_cluster import ROCKSDB, SessionCluster, has_checkpoint, native_options, wait_until
from support.whole_airflow import airflow_server

pytestmark = pytest.mark.slow

RETAINED = {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}
SHORT_HEARTBEAT_TIMEOUT = {"AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30"}
TASK = "follow_and_cut_over"


@pytest.fixture(scope="module")
def airflow(s3: S3Server) -> Iterator[AirflowServer]:
    """Yield a separate Airflow, because its scheduler is replaced."""
    if programs() is None:
        with airflow_server(s3, **SHORT_HEARTBEAT_TIMEOUT) as server:
            yield server
        return
    with (
        postgres() as database,
        airflow_server(s3, AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=database.url, **SHORT_HEARTBEAT_TIMEOUT) as server,
    ):
        yield server


@pytest.mark.parametrize("with_the_task", [False, True], ids=["alone", "with the task"])
def test_a_cut_over_goes_on_though_the_scheduler_is_killed(
    airflow: AirflowServer, cluster: SessionCluster, tmp_path: Path, with_the_task: bool
) -> None:
    """If only the scheduler is killed, the new one starts the task again, although the first try may still run."""
    options = {**native_options(cluster, ROCKSDB), **RETAINED}
    job_id = cluster.run(2, options=options)
    wait_until(lambda: cluster.is_counting(job_id) and has_checkpoint(cluster, job_id), "a checkpoint")
    live = {"while_it_runs": True, "verify_after": False}
    form = {**cluster.form(job_id, str(tmp_path / "result"), options), **live}
    with airflow.restarted_components():
        run = airflow.trigger_dag("rescale_job", form, dag_run_id=f"scheduler-{job_id}")
        wait_for(lambda: cluster.job(job_id).has_ended, "the job to be cancelled", period=0.1)
        task = run.task(TASK)["pid"]
        airflow.processes["scheduler"].kill()
        airflow.processes["scheduler"].wait()
        if with_the_task:
            with suppress(ProcessLookupError):
                os.kill(task, signal.SIGKILL)
        with airflow.restarted_components():
            state = run.end()
            alive = cluster.alive()
            assert len(alive) == 1, f"{state}: {alive}"
            (new,) = alive
            wait_until(lambda: cluster.is_counting(new), "the job to go on counting")
            assert cluster.alive() == {new}
            if state == "success":
                started = run.xcom(TASK)
                assert started["job"] == new
                assert contains(str(tmp_path / "result"), normalise(started["restored_from"]))
    cluster.clear()
