"""State of a task and of a window in real variables of Airflow."""

from __future__ import annotations

from pathlib import Path

from support.dag_runner import DagRunner

DAGS = Path(__file__).parent / "dags/remembers.py"


def test_variables_hold_the_state_of_a_task_and_of_a_window(dags: DagRunner) -> None:
    run = dags.run(DAGS, "remembers")
    assert run.outputs == {"write": [None, None, "1a2b"], "read": [None, {"written": "2026-11-02"}]}
