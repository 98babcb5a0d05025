"""The DAG by `dag.test()`, on a savepoint of Flink's: the result is judged once more by the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rescale.cli.main import main
from rescale.demo.airflow_home import AirflowHome
from support.airflow_server import request
from support.needs import need
from support.s3 import S3Server
from support.snapshots import directory

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]


def test_a_savepoint_gets_another_shape_and_holds_the_same(s3: S3Server, tmp_path: Path) -> None:
    need("java", "Spark runs on a JVM (17 or newer)")
    source, target, log = directory("2-windows"), tmp_path / "rescaled", tmp_path / "log"
    connection = {"conn_type": "aws", "login": "anyone", "password": "any", "extra": {"endpoint_url": s3.endpoint}}
    home = AirflowHome(tmp_path / "airflow", json.dumps(connection))
    home.migrate()
    conf = request(source, str(target), parallelism=3, max_parallelism=256)
    done = subprocess.run(
        [sys.executable, "-m", "rescale.demo.dag_run", str(log), json.dumps(conf)],
        env=home.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, log.read_text()[-5000:]
    assert done.stdout.count("done in") == 8
    assert main(["validate", source, str(target)]) == 0
