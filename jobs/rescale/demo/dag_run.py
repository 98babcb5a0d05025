"""Runs the DAG in this process, and prints what its tasks do; `rescale demo` starts it.

    python -m rescale.demo.dag_run LOG CONF

Airflow's own output goes to the file LOG. A line for each task that starts or ends goes to standard output.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from airflow.listeners import hookimpl

from rescale.demo.airflow_home import DAG_ID, dag_folder
from rescale.storage.files import owned


class Narrator:
    """An Airflow listener that prints what each task does, from its documentation."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._start_time = time.monotonic()

    @hookimpl
    def on_task_instance_running(self, task_instance: Any) -> None:
        self._start_time = time.monotonic()
        self._say(f"  {task_instance.task_id}: {task_instance.task.doc_md}")

    @hookimpl
    def on_task_instance_success(self) -> None:
        self._say(f"    done in {time.monotonic() - self._start_time:.0f} s")

    @hookimpl
    def on_task_instance_failed(self, error: BaseException | str | None) -> None:
        self._say(f"    failed: {error}")

    def _say(self, text: str) -> None:
        print(text, file=self._terminal, flush=True)


def main() -> int:
    log_path, conf_json = sys.argv[1:]
    terminal = os.fdopen(os.dup(1), "w")
    with owned.open_to_append(Path(log_path)) as log_file:
        os.dup2(log_file.fileno(), 1)
        os.dup2(log_file.fileno(), 2)
    try:
        from airflow.dag_processing.dagbag import DagBag
    except ImportError:  # Airflow 3.1 has the class in another module
        from airflow.models.dagbag import DagBag  # type: ignore[no-redef]
    from airflow.providers.common.compat.sdk import get_listener_manager

    get_listener_manager().add_listener(Narrator(terminal))  # type: ignore[no-untyped-call]
    dag = DagBag(dag_folder()).dags[DAG_ID]
    dag_run = dag.test(run_conf=json.loads(conf_json))
    return 0 if dag_run.state == "success" else 1


if __name__ == "__main__":
    sys.exit(main())
