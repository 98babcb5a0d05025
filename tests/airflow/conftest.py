"""Airflow makes a folder when it is imported: not in the home of who runs the tests."""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory

_home = TemporaryDirectory(prefix="airflow-home-")
os.environ["AIRFLOW_HOME"] = _home.name
