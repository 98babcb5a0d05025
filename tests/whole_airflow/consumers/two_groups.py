"""A DAG with two task groups, of which the first one asks for an approval."""

from __future__ import annotations

from airflow.sdk import DAG, task

from rescale.airflow import rescale_task_group

with DAG("two_groups", schedule=None, params={"source": "", "folder": ""}) as dag:
    first = rescale_task_group(
        "first", source="{{ params.source }}", target="{{ params.folder }}/first", parallelism=3, require_approval=True
    )
    second = rescale_task_group(
        "second", source=first.output["target"], target="{{ params.folder }}/second", parallelism=2
    )

    @task
    def after(target: str) -> str:
        return target

    after(second.output["target"])
