"""One Airflow for all: its four components as processes on this machine, and savepoints and jobs for it to rescale."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oracle.distribution import LINES
from rescale.demo.airflow_home import CONNECTION_ID, AirflowHome
from rescale.demo.ui import components
from rescale.storage.locations import join
from rescale.storage.store import open_store
from support import airflow_policies
from support.airflow_server import AirflowServer
from support.needs import need
from support.s3 import S3Server
from support.session_cluster import SessionCluster, session_cluster
from support.snapshots import directory
from support.watching import Watch

_OPTIONS = {
    # A killed worker is noticed sooner than after five minutes.
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
}


WINDOWS = """
early:
  schedule: "0 5 1 1 *"
  timezone: Europe/Berlin
  closes: "04:59"
  source: {folder}/savepoints
  target: {folder}/rescaled/{{window}}-{{date}}
  parallelism: 3
broken:
  schedule: "0 5 1 1 *"
  timezone: Europe/Berlin
  closes: "04:59"
  source: {folder}/savepoints
  target: {folder}/rescaled/{{window}}-{{date}}
  parallelism: 0
clicks-out: &out
  schedule: "0 5 1 1 *"
  timezone: Europe/Berlin
  closes: "04:59"
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


@pytest.fixture(scope="session")
def airflow(s3: S3Server) -> Iterator[AirflowServer]:
    need("java", "Spark runs on a JVM (17 or newer)")
    secret = f"planted-{secrets.token_hex(16)}"
    connection = {
        "conn_type": "aws",
        "login": "somebody",
        "password": secret,
        "extra": {"endpoint_url": s3.endpoint, "region_name": s3.environment["AWS_DEFAULT_REGION"]},
    }
    with tempfile.TemporaryDirectory(prefix="airflow-") as folder, Watch() as watch:
        windows = Path(folder) / "windows.yaml"
        windows.write_text(WINDOWS.format(folder=folder, connection=CONNECTION_ID))
        options = {
            **_OPTIONS,
            **watch.environment,
            "AIRFLOW_CONN_BROKEN": broken(connection),
            "RESCALE_WINDOWS": str(windows),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        home = AirflowHome(Path(folder) / "home", json.dumps(connection), options)
        home.migrate()
        policies = home.folder / "config" / "airflow_local_settings.py"
        policies.parent.mkdir(exist_ok=True)
        shutil.copyfile(airflow_policies.__file__, policies)
        with components(home):
            yield AirflowServer(home, watch, secret)


@pytest.fixture(scope="session")
def cluster(s3: S3Server) -> Iterator[SessionCluster]:
    """For jobs of a real Flink, which has access to S3."""
    need("javac", "the job of these tests is compiled for real Flink (a JDK 17)")
    need("mvn", "Flink's S3 file system comes from Maven")
    with session_cluster(list(LINES.values())[-1], s3) as running:
        yield running


def broken(connection: dict[str, object]) -> str:
    """The connection to a server that is not there."""
    return json.dumps({**connection, "extra": {"endpoint_url": "http://127.0.0.1:9", "region_name": "us-east-1"}})


@pytest.fixture(scope="module")
def asked_for(request: pytest.FixtureRequest) -> Callable[[str], set[Any]]:
    """Gives the values of a parameter in those tests of the module that will run."""

    def values(parameter: str) -> set[Any]:
        tests = [test for test in request.session.items if isinstance(test, pytest.Function)]
        given = [test.callspec.params for test in tests if test.module is request.module and hasattr(test, "callspec")]
        return {params[parameter] for params in given if parameter in params}

    return values


@pytest.fixture
def bucket(s3: S3Server) -> str:
    name = f"airflow-{uuid.uuid4().hex[:12]}"
    s3.create_bucket(name)
    return f"s3://{name}"


@pytest.fixture
def uploaded(bucket: str) -> Callable[[str], str]:
    """Puts a committed snapshot into the bucket."""

    def upload(name: str) -> str:
        source = f"{bucket}/{name}"
        for file in Path(directory(name)).iterdir():
            open_store(source).put(join(source, file.name), file.read_bytes())
        return source

    return upload
