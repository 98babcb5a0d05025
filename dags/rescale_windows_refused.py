"""
Raises the errors in the file of windows, as an import error of this DAG file.

It is a separate file because an import error takes all DAGs of its file out of service.
"""

from __future__ import annotations

from rescale.airflow.windows.windows_file import raise_errors, read_windows, windows_path

raise_errors(read_windows(windows_path(__file__)).errors)
