"""Airflow notifier that records each call."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import BaseNotifier, Context


class FileNotifier(BaseNotifier):
    """Append a line to a file: `what`, and the run id."""

    def __init__(self, what: str, path: str) -> None:
        super().__init__()
        self.what = what
        self.path = path

    def notify(self, context: Context) -> None:
        with Path(self.path).open("a") as file:
            file.write(f"{self.what} {context['dag_run'].run_id}\n")
