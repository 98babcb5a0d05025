"""A DAG for each window: the same way that a rescale takes on demand, between the opening and the closing task."""

from __future__ import annotations

from airflow.sdk import DAG, chain

from rescale.orchestration.ending import end_task
from rescale.orchestration.graph import rescale_graph
from rescale.orchestration.job.graph import job_graph
from rescale.orchestration.job.tasks import LOOK, job_end_task
from rescale.orchestration.tasks import ANNOUNCE
from rescale.orchestration.windows.tasks import CLOSE, OPEN, close_window, open_window, window_asset
from rescale.orchestration.windows.window import Window


def window_dag(window: Window) -> DAG:
    """The DAG of a window. A run waits for the one before it: two of them would rescale the same savepoint."""
    asset = window_asset(window)
    with DAG(
        dag_id=window.dag_id,
        dag_display_name=f"Rescale window {window.name}",
        description=f"{window.schedule} ({window.timezone}), until {window.closes:%H:%M}",
        schedule=window.timetable,
        catchup=False,
        max_active_runs=1,
        params=window.form(),
        tags=["rescale", "flink", "window"],
    ) as dag:
        opened = open_window(window, asset)
        if window.of_a_job:
            way = job_graph(opened, target=_of_opened("target"), closes=_of_opened("closes"))
            ended = job_end_task([OPEN, LOOK], [CLOSE])
        else:
            way = rescale_graph(opened, closes=_of_opened("closes"))
            ended = end_task([OPEN], then=[ANNOUNCE, CLOSE])
        closed = close_window(opened, asset)
        chain(way.published, closed)
        chain([*way.last, closed], ended)
    return dag


def _of_opened(key: str) -> str:
    return f"{{{{ ti.xcom_pull(task_ids='{OPEN}')['{key}'] }}}}"
