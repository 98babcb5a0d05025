"""A driver whose pod has an IPv6 address: the image's entry point writes it as Spark expects it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from support.helm import CHARTS, manifest_of, rendered
from support.needs import need

ENTRYPOINT = CHARTS / "images/spark/entrypoint"

RUN = ("--set", "run.source=s3://a/s", "--set", "run.target=s3://a/t")

SUM_SCRIPT = "from pyspark import SparkContext; print(SparkContext().parallelize(range(10), 2).sum())"


@pytest.mark.parametrize("address", ["fd00::17", "10.0.0.17"])
def test_only_an_ipv6_address_gets_brackets(tmp_path: Path, address: str) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "POD_IP": address}
    command = [str(ENTRYPOINT), "printenv", "POD_IP"]
    pod_ip = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()
    assert pod_ip == (f"[{address}]" if ":" in address else address)


@pytest.mark.slow
def test_executors_reach_a_driver_at_an_ipv6_address(tmp_path: Path) -> None:
    need("java", "Spark runs on a JVM")
    configuration = manifest_of(rendered(*RUN), "ConfigMap", "-spark")["data"]["spark-defaults.conf"]
    lines = [
        line for line in configuration.splitlines() if line.startswith(("spark.driver.host ", "spark.driver.bind"))
    ]
    assert len(lines) == 2
    lines += ["spark.master local-cluster[1,1,1024]", "spark.ui.enabled false", f"spark.local.dir {tmp_path}"]
    (tmp_path / "spark-defaults.conf").write_text("\n".join(lines))
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(tmp_path),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(tmp_path),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SCALA_VERSION": "2.13",
        "POD_IP": "::1",
    }
    command = [str(ENTRYPOINT), sys.executable, "-c", SUM_SCRIPT]
    process = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert process.stdout.split() == ["45"], process.stderr[-3000:]
