"""A temporary home for Airflow, which creates its home directory when it is imported."""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory

_home = TemporaryDirectory(prefix="airflow-home-")
os.environ["AIRFLOW_HOME"] = _home.name
