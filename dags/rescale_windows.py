"""
A DAG for each window of a file: Airflow rescales by the clock.

The file is `windows.yaml` beside the DAGs, or the one that the variable `RESCALE_WINDOWS` names. An entry that makes no
sense makes no DAG; it shows as an import error of `rescale_windows_refused.py`.
"""

from __future__ import annotations

from rescale.orchestration.windows.dags import window_dag
from rescale.orchestration.windows.windows_file import read_windows, windows_path

for window in read_windows(windows_path(__file__)).windows:
    globals()[window.dag_id] = window_dag(window)
