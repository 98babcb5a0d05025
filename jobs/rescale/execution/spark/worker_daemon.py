"""The daemon that forks Spark's Python workers: PySpark's own, but for three things.

PySpark's collects garbage after every task. In all that is loaded that takes 20 ms, a fifth of a task that compares
256 MB; so what there is when a task begins counts as permanent.

At the end of a session the JVM closes the sockets of idle workers and then ends the daemon, which ends them
(`PythonWorkerFactory.stopDaemon`). A worker that wakes up in between has nobody to answer; PySpark's daemon would show
a traceback for that; this one is quiet.

The first task of a job says it when its worker has to compile loops: they take longer than all else then.
"""

from __future__ import annotations

import gc
import socket

from pyspark import TaskContext, daemon

from rescale.execution.progress import say_compiling
from rescale.flink.compiling import tell_once

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """What `pyspark.daemon.worker` returns: 0 if this worker can take another task."""
    gc.freeze()
    try:
        return _worker(sock, authenticated)
    except BrokenPipeError:
        return 1


def _say_compiling(kept: bool) -> None:
    task = TaskContext.get()
    if task is not None and task.partitionId() == 0:
        say_compiling(kept)


if __name__ == "__main__":
    tell_once(_say_compiling)
    daemon.worker = worker
    daemon.manager()
