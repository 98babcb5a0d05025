"""Give Airflow, which makes a folder when it is imported, a home outside of the user's."""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory

_home = TemporaryDirectory(prefix="airflow-home-")
os.environ["AIRFLOW_HOME"] = _home.name
