"""
### Rescale a savepoint, then start the job

`RescaleOperator` rescales the savepoint in one task. `HandOverOperator` starts the job from the result: with `flink`
and `jar` on a session cluster, with `deployment` by Flink's Kubernetes operator. Without these arguments, as here, it
prints the command that starts the job.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param, chain, task

from rescale.airflow import HandOverOperator, RescaleOperator

with DAG(
    "example_rescale_then_start",
    schedule=None,
    doc_md=__doc__,
    params={
        "source": Param("s3://state/savepoint-1a2b", type="string"),
        "target": Param("s3://state/rescaled", type="string"),
    },
) as dag:
    rescaled = RescaleOperator(
        task_id="rescale",
        source="{{ params.source }}",
        target="{{ params.target }}",
        max_parallelism=256,
        parallelism=4,
    )
    started = HandOverOperator(task_id="start", start=rescaled.output["starting"])

    @task
    def next_step(target: str, certificate: str) -> str:
        """Does whatever comes next, such as a smoke test of the job."""
        return f"the job was started from {target}, certified by {certificate}"

    chain(started, next_step(rescaled.output["target"], rescaled.output["certificate"]))
