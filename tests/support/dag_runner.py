"""Runner of DAGs by `dag.test()`, in another process, with a new database."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rescale.demo.airflow_home import PARSING_LIMITS

_RUN = """
import json, sys
from pathlib import Path
try:
    from airflow.dag_processing.dagbag import DagBag
except ImportError:  # Airflow 3.1
    from airflow.models.dagbag import DagBag
file, dag_id, conf, answer = sys.argv[1:]
bag = DagBag(file)
assert not bag.import_errors, bag.import_errors
run = bag.dags[dag_id].test(run_conf=json.loads(conf))
instances = run.get_task_instances()
outputs = {instance.task_id: instance.xcom_pull(task_ids=instance.task_id) for instance in instances}
from airflow.models.asset import AssetEvent
from airflow.utils.session import create_session
with create_session() as session:
    events = [event.extra for event in session.query(AssetEvent).order_by(AssetEvent.id)]
document = {
    "state": run.state, "states": {instance.task_id: instance.state for instance in instances},
    "outputs": outputs, "events": events,
}
Path(answer).write_text(json.dumps(document, default=str))
"""


@dataclass(frozen=True)
class EndedRun:
    """An ended run: states and outputs of its tasks, and the extras of all asset events so far."""

    state: str
    states: dict[str, str | None]
    outputs: dict[str, Any]
    events: list[dict[str, Any]]
    log: str


@dataclass(frozen=True)
class DagRunner:
    """Runs DAGs one after the other with the same database, which keeps their runs."""

    home: Path

    @property
    def _environment(self) -> dict[str, str]:
        variables = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW__")}
        return {
            **variables,
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.home / "dags"),
            **PARSING_LIMITS,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def _completed(self, *command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command], env=self._environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def migrate(self) -> None:
        self._completed("-m", "airflow", "db", "migrate")

    def run(self, file: Path, dag_id: str, **conf: Any) -> EndedRun:
        """Run the DAG of a file to its end; a copy of the file stays in the DAG folder."""
        file = Path(shutil.copy(file, self.home / "dags"))
        answer = self.home / "answer.json"
        log = self._completed("-c", _RUN, str(file), dag_id, json.dumps(conf), str(answer))
        return EndedRun(**json.loads(answer.read_text()), log=log)


@contextmanager
def dag_runner() -> Iterator[DagRunner]:
    with tempfile.TemporaryDirectory(prefix="dag-runner-") as folder:
        dags = DagRunner(Path(folder))
        (dags.home / "dags").mkdir()
        dags.migrate()
        yield dags
