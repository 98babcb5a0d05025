"""A window of a running job: Airflow begins rounds before it opens, and the job is cut over while it is open."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from rescale.storage.locations import normalise
from support.airflow_server import AirflowServer, Run, wait_for
from support.session_cluster import ROCKSDB, SessionCluster, has_checkpoint, native_options, wait_until

pytestmark = pytest.mark.slow

_FOLLOW = "follow_and_cut_over"


class Opening(NamedTuple):
    """A scheduled run of a window that opens soon, and the job of the window."""

    run: Run
    opens: datetime
    job_id: str


@pytest.fixture
def opening(airflow: AirflowServer, cluster: SessionCluster, tmp_path: Path) -> Iterator[Opening]:
    cluster.clear()
    retained = {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}
    options = {**native_options(cluster, ROCKSDB), **retained}
    job_id = cluster.run(2, options=options)
    wait_until(lambda: cluster.is_counting(job_id) and has_checkpoint(cluster, job_id), "a checkpoint")
    opens = (datetime.now(UTC) + timedelta(minutes=3)).replace(second=0, microsecond=0)
    window = {
        "schedule": f"{opens.minute} {opens.hour} * * *",
        "timezone": "UTC",
        "closes": f"{opens + timedelta(hours=1):%H:%M}",
        "begins_before": "30m",
        "while_it_runs": True,
        **cluster.form(job_id, f"{tmp_path}/{{window}}-{{date}}-{{time}}", options),
    }
    file = airflow.home.folder.parent / "windows.yaml"
    others = file.read_text()
    file.write_text(others + yaml.safe_dump({"live": window}))
    try:
        airflow.parse_anew("rescale_early")
        yield Opening(wait_for(lambda: _run_of(airflow, "rescale_live"), "a scheduled run"), opens, job_id)
    finally:
        file.write_text(others)
        airflow.parse_anew("rescale_early")
        cluster.clear()


def _run_of(airflow: AirflowServer, dag_id: str) -> Run | None:
    status, document = airflow.api("GET", f"/dags/{dag_id}/dagRuns")
    runs = document["dag_runs"] if status == 200 else []
    return Run(airflow, runs[0]["dag_run_id"], dag_id) if runs else None


def test_rounds_begin_before_the_window_opens_and_the_job_is_cut_over_in_it(
    opening: Opening, cluster: SessionCluster
) -> None:
    run, opens, job_id = opening
    assert run.run_id.startswith("scheduled__")
    assert run.end() == "success", run.states()
    assert run.xcom("open_window")["opens"] == opens.isoformat()
    started = run.xcom(_FOLLOW)
    assert normalise(started["restored_from"]).endswith(f"/live-{opens:%Y-%m-%d-%H%M}")
    assert cluster.job(job_id).has_ended
    assert {vertex.parallelism for vertex in cluster.job(started["job"]).vertices} == {3}
    lines = [line for line in run.log(_FOLLOW) if line.get("timestamp")]  # lines that only group others have no time
    times = {line["event"]: datetime.fromisoformat(line["timestamp"]) for line in lines}
    base = next(time for event, time in times.items() if event.startswith("base: checkpoint"))
    waiting = [event for event in times if event.endswith(f"waits for {opens:%Y-%m-%d %H:%M} UTC")]
    cancel = next(time for event, time in times.items() if event.startswith("cancel: "))
    assert base < opens <= cancel
    assert waiting
