"""DAGs that are scheduled on the asset of published results, named in each way that the documentation shows."""

from __future__ import annotations

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset

from rescale.airflow import RESCALED_SAVEPOINT

for way, asset in {
    "constant": RESCALED_SAVEPOINT,
    "name_and_uri": Asset(name="rescaled_savepoint", uri="x-rescale://published"),
}.items():
    with DAG(f"after_a_rescale_by_{way}", schedule=[asset]) as dag:
        EmptyOperator(task_id="go_on")
    globals()[dag.dag_id] = dag
