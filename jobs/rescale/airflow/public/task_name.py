"""Names of single tasks, from which the ids that Flink gets are made."""

from __future__ import annotations

from airflow.sdk import Context


def task_name(context: Context) -> str:
    """Return a name that all tries of a task have, and no other task."""
    instance = context["ti"]
    index = getattr(instance, "map_index", -1)
    return "/".join([instance.dag_id, instance.run_id, instance.task_id, *([] if index < 0 else [str(index)])])
