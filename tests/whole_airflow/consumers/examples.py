"""The example of a DAG that is scheduled on published results; the other examples have schedules of their own."""

from __future__ import annotations

from runpy import run_path

from airflow.sdk import DAG

from rescale.demo.airflow_home import dag_folder

example: DAG = run_path(str(dag_folder() / "examples" / "after_a_rescale.py"))["dag"]
