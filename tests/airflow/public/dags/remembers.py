"""A DAG whose tasks remember something in Airflow's variables, as before Airflow 3.3."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, task

from rescale.airflow.state_stores import task_state, window_state

with DAG("remembers", schedule=None) as remembers:

    @task
    def write(ti: Any = None) -> list[Any]:
        own, of_window = task_state(None, ti), window_state(None, "a-window")
        before = [own.get("mark"), of_window.get("last")]
        own.set("mark", "1a2b")
        of_window.set("last", {"written": "2026-11-02"})
        return [*before, own.get("mark")]

    @task
    def read(ti: Any = None) -> list[Any]:
        return [task_state(None, ti).get("mark"), window_state(None, "a-window").get("last")]

    write() >> read()
