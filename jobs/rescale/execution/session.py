"""The Spark session of a job."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

_LOCAL = re.compile(r"local(\[[\d*]+\])?")

# A lost task is tried again, on one machine too: Spark's own local masters give up at the first failure.
_LOCAL_ATTEMPTS = 4


@contextmanager
def spark_session(name: str, master: str | None) -> Iterator[SparkSession]:
    """A session for as long as the block runs; `master` None leaves it to `spark-submit` and its configuration."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(_with_attempts(master))
        if _LOCAL.match(master):
            # Nothing of a local run needs to be seen from outside the machine.
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            builder = (
                builder.config("spark.driver.host", "127.0.0.1")
                .config("spark.driver.bindAddress", "127.0.0.1")
                .config("spark.ui.enabled", "false")
            )
    spark = (
        builder.config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def _with_attempts(master: str) -> str:
    if not _LOCAL.fullmatch(master):
        return master
    threads = master.removeprefix("local").strip("[]") or "1"
    return f"local[{threads},{_LOCAL_ATTEMPTS}]"
