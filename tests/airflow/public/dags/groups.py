"""DAGs that use the task group in every way that can go wrong."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, TaskGroup, task

from rescale.airflow import DiscardOperator, RescaleOperator, rescale_task_group

with DAG("two_groups", schedule=None, params={"source": "", "folder": ""}) as two_groups:

    @task
    def source(params: Any = None) -> str:
        return str(params["source"])

    with TaskGroup("outer"):
        first = rescale_task_group(
            "first", source=source(), target="{{ params.folder }}/first", max_parallelism=256, proof="records"
        )
    second = rescale_task_group(
        "second", source=first.output["target"], target="{{ params.folder }}/second", parallelism=3
    )

    @task
    def after(first: str, second: str, shape: Any) -> list[Any]:
        return [first, second, shape]

    after(first.output["target"], second.output["target"], second.output["starting"])

with DAG("groups_that_end_early", schedule=None, params={"source": "", "folder": ""}) as groups_that_end_early:

    @task.branch
    def nowhere() -> list[str]:
        return []

    @task
    def go_on() -> str:
        return "went on"

    not_chosen = rescale_task_group("not_chosen", source="{{ params.source }}", target="/not", parallelism=3)
    nowhere() >> not_chosen >> go_on.override(task_id="after_not_chosen")()

    same_shape: Any = {"operators": ["visits=4/128"]}
    nothing = rescale_task_group(
        "nothing_to_do", source="{{ params.source }}", target="{{ params.folder }}/n", **same_shape
    )
    nothing >> go_on.override(task_id="after_nothing_to_do")()

    wrong = rescale_task_group("wrong", source="{{ params.source }}", target="/wrong", parallelism="many")
    wrong >> go_on.override(task_id="after_wrong")()

    RescaleOperator(task_id="nothing", source="{{ params.source }}", target="{{ params.folder }}/o", **same_shape)
    DiscardOperator(task_id="discard", target="{{ params.folder }}/free")

with DAG("one_operator", schedule=None, params={"source": "", "target": ""}) as one_operator:
    RescaleOperator(
        task_id="rescale",
        source="{{ params.source }}",
        target="{{ params.target }}",
        parallelism="{{ 1 + 2 }}",
        operators=["visits=4"],
    )
