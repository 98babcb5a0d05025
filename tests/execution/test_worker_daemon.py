"""A worker of Spark whose socket is closed while it waits for a task, which happens at the end of a session."""

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
    ("module", "output", "has_traceback"),
    [("pyspark.daemon", "", True), ("rescale.execution.tasks.spark.worker_daemon", "1", False)],
)
def test_worker_whose_socket_is_closed_ends_without_the_traceback_of_pyspark(
    module: str, output: str, has_traceback: bool
) -> None:
    environment = {**os.environ, "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1"}  # as the JVM sets it
    command = [sys.executable, "-c", WAITING.format(module=module)]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert process.stdout.strip() == output
    assert ("BrokenPipeError" in process.stderr) == has_traceback, process.stderr
