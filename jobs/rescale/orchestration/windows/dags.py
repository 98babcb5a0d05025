"""A DAG for each window: the same way that a rescale takes on demand, between the opening and the closing task."""

from __future__ import annotations

from airflow.sdk import DAG, chain

from rescale.orchestration.ending import end_task
from rescale.orchestration.graph import rescale_graph
from rescale.orchestration.job.job_flow import job_graph
from rescale.orchestration.job.job_tasks import job_end_task
from rescale.orchestration.savepoint_tasks import ANNOUNCE
from rescale.orchestration.settings import dag_arguments
from rescale.orchestration.steps.earlier_tasks import LOOK, OPEN, PLAN, Told
from rescale.orchestration.windows.window import Window
from rescale.orchestration.windows.window_tasks import CLOSE, close_window, open_window, window_asset


def window_dag(window: Window) -> DAG:
    """The DAG of a window. A run waits for the one before it: two of them would rescale the same savepoint."""
    asset = window_asset(window)
    with DAG(
        dag_id=window.dag_id,
        dag_display_name=f"Rescale window {window.name}",
        description=f"{window.schedule} ({window.timezone}), until {window.closes:%H:%M}",
        schedule=window.timetable,
        catchup=False,
        doc_md=_doc(window),
        **dag_arguments(window.form(), ["window"], one_run=True),
    ) as dag:
        opened, closes = open_window(window, asset), Told(OPEN, "closes")
        if window.of_a_job:
            way = job_graph({"target": Told(OPEN, "target")}, closes)
            ended = job_end_task([OPEN, LOOK], [CLOSE])
        else:
            way = rescale_graph({place: Told(OPEN, place) for place in ("source", "target")}, closes)
            ended = end_task([OPEN, PLAN], then=[ANNOUNCE, CLOSE])
        closed = close_window(opened, asset)
        chain(opened, way.first)
        chain(way.published, closed)
        chain([*way.last, closed], ended)
    return dag


def _doc(window: Window) -> str:
    what = f"the job `{window.values['job']}`" if window.of_a_job else f"savepoints below `{window.values['source']}`"
    values = "\n".join(f"| `{name}` | `{value}` |" for name, value in window.values.items())
    logs = f"`{OPEN}` or `{LOOK}`" if window.of_a_job else f"`{OPEN}`"
    return f"""### Window {window.name}

Rescales {what} by the clock: `{window.schedule}` ({window.timezone}); a run that begins after {window.closes:%H:%M} is
skipped, and so is one that finds nothing to do. The log of {logs} says why.
What was rescaled last lies in the state of the asset `{window.dag_id}`, which gets an event with every run that went
through; a run is green only if its result is published, or nothing was to be done.

| field | value |
|---|---|
{values}
"""
