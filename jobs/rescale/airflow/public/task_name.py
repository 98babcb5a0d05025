"""Names of task instances, from which ids for Flink are derived."""

from __future__ import annotations

from airflow.sdk import Context


def task_name(context: Context) -> str:
    """Return the name that all tries of a task share, and no other task has."""
    ti = context["ti"]
    index = getattr(ti, "map_index", -1)
    return "/".join([ti.dag_id, ti.run_id, ti.task_id, *([] if index < 0 else [str(index)])])
