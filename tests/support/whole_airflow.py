"""A whole Airflow for tests: its components as processes, its connection to a store, windows and policies."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from rescale.demo.airflow_home import CONNECTION_ID, DAG_ID, USER, AirflowHome
from rescale.demo.ui import components
from support import airflow_policies
from support.airflow_server import AirflowServer
from support.s3 import S3Server
from support.watching import Watch

CONSUMERS = Path(__file__).parents[1] / "whole_airflow" / "consumers"
"""Folder of DAGs that are scheduled on assets of published results."""

_OPTIONS = {
    # Airflow notices a killed worker sooner than after five minutes, and does not kill workers on a busy machine.
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "120",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
    "AIRFLOW__WORKERS__MAX_FAILED_HEARTBEATS": "20",
    # Airflow parses a DAG again at once, not after half a minute.
    "AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "0",
    "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(
        [
            {"name": name, "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle", "kwargs": arguments}
            for name, arguments in (("dags-folder", {}), ("consumers", {"path": str(CONSUMERS)}))
        ]
    ),
    # Spark's driver is only reachable here, whatever its master.
    "SPARK_LOCAL_IP": "127.0.0.1",
}

ROLES = {"vera": "viewer", "ada": "user", "grace": "user", "olga": "op"}
"""Roles of the users other than the administrator."""

_IN_HALF_A_DAY = datetime.now(ZoneInfo("Europe/Berlin")) + timedelta(hours=12)

OPENS = f"0 5 1 {(_IN_HALF_A_DAY.month + 5) % 12 + 1} *"
"""Schedule of the windows, half a year from now: their runs start only when a test triggers them."""

CLOSES = f"{_IN_HALF_A_DAY:%H:%M}"
"""Closing time of the windows, which no test reaches."""

WINDOWS = """
early:
  schedule: "{opens}"
  timezone: Europe/Berlin
  closes: "{closes}"
  source: {folder}/savepoints
  target: {folder}/rescaled/{{window}}-{{date}}
  parallelism: 3
broken:
  schedule: "{opens}"
  timezone: Europe/Berlin
  closes: "{closes}"
  source: {folder}/savepoints
  target: {folder}/rescaled/{{window}}-{{date}}
  parallelism: 0
clicks-out: &out
  schedule: "{opens}"
  timezone: Europe/Berlin
  closes: "{closes}"
  flink: session
  job: clicks
  savepoints: s3://windows/savepoints
  taking: stop
  target: s3://windows/rescaled/{{window}}-{{date}}-{{time}}
  parallelism: 2
  connection: {connection}
  hand_over: jar
  jar: counts.jar
  entry_class: Counts
  arguments: ["0", clicks]
clicks-back:
  <<: *out
  parallelism: 1
"""


ADDRESS_PASSWORD = "planted-in-an-address"

SETTINGS = "settings.yaml"
"""File name of the platform's settings, in the Airflow's folder."""


@contextmanager
def platform_with(airflow: AirflowServer, settings: str) -> Iterator[None]:
    """Give the platform these settings during the block; `{folder}` in them is the Airflow's folder."""
    file = airflow.home.folder.parent / SETTINGS

    def use(text: str) -> None:
        file.write_text(text)
        for dag_id in (DAG_ID, "rescale_job"):
            airflow.parse_anew(dag_id)

    use(settings.format(folder=file.parent))
    try:
        yield
    finally:
        use("")


@contextmanager
def airflow_server(s3: S3Server, **options: str) -> Iterator[AirflowServer]:
    """Run Airflow during the block.

    Its platform has no settings until a test writes some (`platform_with`). `options` are further Airflow variables.
    """
    secret = f"planted-{secrets.token_hex(16)}"
    connection = {
        "conn_type": "aws",
        "login": "somebody",
        "password": secret,
        "extra": {"endpoint_url": s3.endpoint, "region_name": s3.environment["AWS_DEFAULT_REGION"]},
    }
    with tempfile.TemporaryDirectory(prefix="airflow-") as folder, Watch() as watch:
        windows = Path(folder) / "windows.yaml"
        windows.write_text(WINDOWS.format(folder=folder, connection=CONNECTION_ID, opens=OPENS, closes=CLOSES))
        variables = {
            **_OPTIONS,
            **watch.environment,
            "AIRFLOW_CONN_BROKEN": broken_connection(connection),
            "RESCALE_WINDOWS": str(windows),
            "RESCALE_SETTINGS": str(Path(folder) / SETTINGS),
            "PYTHONPATH": os.pathsep.join(sys.path),
            **options,
        }
        (Path(folder) / SETTINGS).touch()
        users = {USER: "admin", **ROLES}
        home = AirflowHome(Path(folder) / "home", json.dumps(connection), variables, role_by_user=users)
        home.migrate()
        policies = home.folder / "config" / "airflow_local_settings.py"
        policies.parent.mkdir(exist_ok=True)
        shutil.copyfile(airflow_policies.__file__, policies)
        with components(home) as processes:
            yield AirflowServer(home, watch, secret, processes=processes)


def broken_connection(connection: dict[str, object]) -> str:
    """Return a connection to a server that does not exist, with a password in its address."""
    address = f"http://me:{ADDRESS_PASSWORD}@127.0.0.1:9"
    return json.dumps({**connection, "extra": {"endpoint_url": address, "region_name": "us-east-1"}})
