"""A notifier of Airflow's that writes down what it was called for."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import BaseNotifier, Context


class Told(BaseNotifier):
    """Appends a line to a file: `what`, and the run."""

    def __init__(self, what: str, path: str) -> None:
        super().__init__()
        self.what = what
        self.path = path

    def notify(self, context: Context) -> None:
        with Path(self.path).open("a") as file:
            file.write(f"{self.what} {context['dag_run'].run_id}\n")
