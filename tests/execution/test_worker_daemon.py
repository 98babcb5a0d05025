"""A worker of Spark whose socket is closed while it waits for a task, as at the end of a session."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

WAITING = """
import socket
from {module} import worker
ours, theirs = socket.socketpair()
theirs.close()
print(worker(ours, True))
"""


@pytest.mark.parametrize(
    ("module", "said", "traceback"),
    [("pyspark.daemon", "", True), ("rescale.execution.tasks.spark.worker_daemon", "1", False)],
)
def test_only_pyspark_shows_a_traceback(module: str, said: str, traceback: bool) -> None:
    environment = {**os.environ, "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1"}  # as the JVM sets it
    command = [sys.executable, "-c", WAITING.format(module=module)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == said
    assert ("BrokenPipeError" in done.stderr) == traceback, done.stderr
