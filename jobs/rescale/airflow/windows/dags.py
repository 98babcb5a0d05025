"""The DAG of a window: the tasks of a rescale between an opening and a closing task."""

from __future__ import annotations

from airflow.sdk import DAG, chain

from rescale.airflow.assets import asset_of_window
from rescale.airflow.ending import end_task
from rescale.airflow.forms.dag_arguments import dag_arguments
from rescale.airflow.graph import rescale_graph
from rescale.airflow.job.job_flow import rescale_job_tasks
from rescale.airflow.job.job_tasks import job_end_task
from rescale.airflow.steps.earlier_tasks import ANNOUNCE_TASK, LOOK_TASK, OPEN_TASK, PLAN_TASK, XComField
from rescale.airflow.windows.window import Window
from rescale.airflow.windows.window_tasks import CLOSE_TASK, close_window, open_window
from rescale.text.units import duration


def window_dag(window: Window) -> DAG:
    """Return the DAG of a window. Its runs do not overlap: two at once would rescale the same job or savepoint."""
    asset = asset_of_window(window.dag_id, window.name)
    with DAG(
        dag_id=window.dag_id,
        dag_display_name=f"Rescale window {window.name}",
        description=f"{window.schedule} ({window.timezone}), until {window.closes:%H:%M}",
        schedule=window.timetable,
        catchup=False,
        doc_md=_dag_description(window),
        **dag_arguments(window.form(), ["window"], one_run_at_once=True),
    ) as dag:
        open_task, closes_at = open_window(window, asset), XComField(OPEN_TASK, "closes")
        if window.has_job:
            opens_at = XComField(OPEN_TASK, "opens", is_optional=True)
            rescale_tasks = rescale_job_tasks({"target": XComField(OPEN_TASK, "target")}, closes_at, opens_at)
            end = job_end_task([OPEN_TASK, LOOK_TASK], [CLOSE_TASK])
        else:
            rescale_tasks = rescale_graph(
                {place: XComField(OPEN_TASK, place) for place in ("source", "target")}, closes_at
            )
            end = end_task([OPEN_TASK, PLAN_TASK], task_ids_after_publication=[ANNOUNCE_TASK, CLOSE_TASK])
        close_task = close_window(asset)
        chain(open_task, rescale_tasks.first_task)
        chain(rescale_tasks.result_tasks, close_task)
        chain([*rescale_tasks.last_tasks, close_task], end)
    return dag


def _dag_description(window: Window) -> str:
    subject = (
        f"the job `{window.form_values['job']}`"
        if window.has_job
        else f"savepoints below `{window.form_values['source']}`"
    )
    value_rows = "\n".join(f"| `{name}` | `{value}` |" for name, value in window.form_values.items())
    lead_text = duration(window.begins_before.total_seconds())
    lead_sentence = (
        f"\nIts runs begin {lead_text} earlier, and cut over while the window is open." if window.begins_before else ""
    )
    log_tasks = f"`{OPEN_TASK}` or `{LOOK_TASK}`" if window.has_job else f"`{OPEN_TASK}`"
    return f"""### Window {window.name}

Rescales {subject} on a schedule: `{window.schedule}` ({window.timezone}). A run that starts after {window.closes:%H:%M}
is skipped, and so is a run with nothing to do. The log of {log_tasks} says why.{lead_sentence}
The state of the asset `{window.dag_id}` records what was rescaled last. The asset gets an event with every published
result. A run is green only if its result is published, or if there was nothing to do.

| field | value |
|---|---|
{value_rows}
"""
