"""Standalone Spark cluster on 127.0.0.1: a Master and a Worker from pyspark's own jars."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from rescale.demo.processes import free_port, running, wait_until
from support.needs import need

_HOME = Path(pyspark.__file__).parent
_SECONDS_TO_START = 600


@dataclass(frozen=True)
class StandaloneSpark:
    """A cluster with a master at `url`; below `work`, each executor has a directory with its log."""

    port: int
    work: Path

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def tasks(self) -> int:
        """Return the number of tasks that executors have received."""
        logs = self.work.glob("app-*/*/stderr")
        return sum(log.read_text(errors="replace").count("Got assigned task") for log in logs)


@contextmanager
def standalone_spark(folder: Path) -> Iterator[StandaloneSpark]:
    """Yield a cluster with one worker, which has one core, and memory for one executor of the default size."""
    need("java", "Spark runs on a JVM")
    spark = StandaloneSpark(free_port(), folder / "work")
    environment = {**os.environ, "SPARK_HOME": str(_HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
    logs = {name: folder / f"{name}.log" for name in ("master", "worker")}
    at = ["--host", "127.0.0.1", "--webui-port", "0"]
    master = [*_daemon("master.Master"), *at, "--port", str(spark.port)]
    worker = [
        *_daemon("worker.Worker"),
        *at,
        "--cores",
        "1",
        "--memory",
        "1g",
        "--work-dir",
        str(spark.work),
        spark.url,
    ]
    with ExitStack() as stack:
        for name, command, ready in (
            ("master", master, "New state: ALIVE"),
            ("worker", worker, "Successfully registered with master"),
        ):
            process, log = stack.enter_context(running(command, environment, logs[name])), logs[name]
            what = f"Spark's {name}"
            wait_until(lambda log=log, ready=ready: ready in log.read_text(), process, log, what, _SECONDS_TO_START)
        yield spark


def _daemon(name: str) -> list[str]:
    return [str(_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
