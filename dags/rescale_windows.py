"""
A DAG for each window of a file, for scheduled rescales.

The file is `windows.yaml` beside the DAGs, or the file that the environment variable `RESCALE_WINDOWS` names. A wrong
entry has no DAG; it is an import error of `rescale_windows_refused.py`.
"""

from __future__ import annotations

from rescale.airflow.windows.dags import window_dag
from rescale.airflow.windows.windows_file import read_windows, windows_path

for window in read_windows(windows_path(__file__)).windows:
    globals()[window.dag_id] = window_dag(window)
