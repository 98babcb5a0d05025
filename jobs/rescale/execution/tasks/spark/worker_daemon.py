"""The daemon that forks Spark's Python workers: PySpark's own with three changes.

PySpark's daemon collects garbage after every task. With all modules loaded, this takes 20 ms, a fifth of a task that
compares 256 MB; so all objects that exist when a task begins are frozen (`gc.freeze`).

At the end of a session, the JVM closes the sockets of idle workers and then stops the daemon, which stops the workers
(`PythonWorkerFactory.stopDaemon`). A worker that wakes up in between finds its socket closed. PySpark's daemon would
print a traceback; this daemon prints nothing.

If the worker with the first task of a job must compile loops, it prints a notice, because compiling takes longer than
the rest of the task.
"""

from __future__ import annotations

import gc
import socket

from pyspark import TaskContext, daemon

from rescale.execution.progress import say_compiling
from rescale.flink.compiling import listen_once

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Return the result of `pyspark.daemon.worker`: 0 if this worker can take another task."""
    gc.freeze()
    try:
        return _worker(sock, authenticated)
    except BrokenPipeError:
        return 1


def _say_compiling(will_be_cached: bool) -> None:
    task = TaskContext.get()
    if task is not None and task.partitionId() == 0:
        say_compiling(will_be_cached)


if __name__ == "__main__":
    listen_once(_say_compiling)
    daemon.worker = worker
    daemon.manager()
