"""
### Copy a savepoint to another region, every night

The copy is self-contained, and is compared with its source record by record. Each night has a target of its own.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from rescale.airflow import RescaleOperator

with DAG(
    "example_nightly_copy",
    schedule="0 2 * * *",  # UTC, unless Airflow has another default time zone
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    params={
        "source": Param("s3://state-eu-central/nightly", type="string"),
        "copies": Param("s3://state-eu-west/copies", type="string"),
    },
) as dag:
    RescaleOperator(
        task_id="copy",
        source="{{ params.source }}",
        target="{{ params.copies }}/{{ dag_run.run_after.strftime('%Y-%m-%d') }}",
        same_shape=True,
    )
