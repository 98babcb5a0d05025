"""
Shows what is wrong in the file of windows, as an import error of this DAG file.

It is a file of its own because Airflow takes all DAGs of a file out of service when one import error names the file.
"""

from __future__ import annotations

from rescale.orchestration.windows.windows_file import read_windows, refuse, windows_path

refuse(read_windows(windows_path(__file__)).refused)
