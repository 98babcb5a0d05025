"""`rescale demo --ui`: an Airflow with its web interface, until Ctrl-C.

Airflow's four components are started separately, because `airflow standalone` listens on all interfaces and leaves
child processes.
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn

from rescale.demo.airflow_home import CONNECTION_ID, DAG_ID, USER, AirflowHome, airflow
from rescale.demo.processes import Process, demo_folder, interrupted_once, process_error, running, wait_until
from rescale.demo.s3_server import SOURCE, TARGET_BUCKET, s3_server, upload_savepoint
from rescale.storage.locations import join

_START_TIMEOUT_SECONDS = 600


def demo_ui(say: Callable[[str], None]) -> None:
    """Run the S3 server and Airflow until an interruption."""
    with interrupted_once(), demo_folder() as folder:
        say("Starting an S3 server on this machine …")
        with s3_server(folder) as server:
            upload_savepoint()
            say("Creating an Airflow for the demo (SQLite, in a temporary folder) …")
            home = AirflowHome(folder / "airflow", server.airflow_connection_json)
            home.migrate()
            say("Starting its api-server, scheduler, dag-processor and triggerer …")
            with components(home) as processes:
                try:
                    say(_instructions(home, server.endpoint))
                    _watch(home, processes)
                except KeyboardInterrupt:
                    say("Stopping everything that the demo started …")
                    raise


def _watch(home: AirflowHome, processes: Mapping[str, Process]) -> NoReturn:
    """Watch the components. Raises `RescaleError` as soon as one of them ends."""
    while True:
        for name, process in processes.items():
            if process.poll() is not None:
                raise process_error(f"Airflow's {name} ended", component_log(home, name))
        time.sleep(1)


def component_commands(home: AirflowHome) -> dict[str, list[str]]:
    return {
        "api-server": airflow("api-server", "--host", "127.0.0.1", "--port", str(home.port), "--workers", "1"),
        "scheduler": airflow("scheduler", "--skip-serve-logs"),
        "dag-processor": airflow("dag-processor"),
        "triggerer": airflow("triggerer", "--skip-serve-logs"),
    }


@contextmanager
def components(home: AirflowHome) -> Iterator[dict[str, Process]]:
    """Yield the four components by name as soon as they are healthy and the DAG is parsed."""
    with ExitStack() as stack:
        processes = {
            name: stack.enter_context(running(command, home.environment, component_log(home, name)))
            for name, command in component_commands(home).items()
        }
        for process in processes.values():
            stack.callback(process.terminate)  # lets all components end at the same time
        for name, is_ready in (
            ("api-server", lambda: bool(_health(home))),
            ("scheduler", lambda: _is_healthy(home, "scheduler")),
            ("dag-processor", lambda: _is_healthy(home, "dag_processor")),
            ("triggerer", lambda: _is_healthy(home, "triggerer")),
            ("dag-processor", lambda: _knows_the_dag(home)),
        ):
            wait_until(
                is_ready, processes[name], component_log(home, name), f"Airflow's {name}", _START_TIMEOUT_SECONDS
            )
        yield processes


def _instructions(home: AirflowHome, endpoint: str) -> str:
    return f"""
Airflow:  {home.url}/dags/{DAG_ID}
Log in:   {USER} / {home.password}

Press "Trigger" and fill in the form:
  Source       {SOURCE}
  Target       {join(TARGET_BUCKET, "clicks-6")}
  Parallelism  6
  Connection   {CONNECTION_ID}

S3:       {endpoint} (any keys)
Ctrl-C ends everything.
"""


def _health(home: AirflowHome) -> dict[str, dict[str, str]]:
    """Return the health of the components; empty while the server does not answer."""
    return _request(f"{home.url}/api/v2/monitor/health")


def _is_healthy(home: AirflowHome, component: str) -> bool:
    return _health(home).get(component, {}).get("status") == "healthy"


def _knows_the_dag(home: AirflowHome) -> bool:
    login = json.dumps({"username": USER, "password": home.password}).encode()
    token = _request(f"{home.url}/auth/token", data=login).get("access_token", "")
    return bool(_request(f"{home.url}/api/v2/dags/{DAG_ID}", authorization=f"Bearer {token}"))


def _request(url: str, data: bytes | None = None, authorization: str = "") -> dict[str, dict[str, str]]:
    """Return the server's answer to a GET, or with `data` to a POST; empty without an answer or after an error."""
    headers = {"Content-Type": "application/json", "Authorization": authorization}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=60) as answer:
            document: dict[str, dict[str, str]] = json.load(answer)
            return document
    except OSError:
        return {}


def component_log(home: AirflowHome, component: str) -> Path:
    return home.folder / f"{component}.log"
