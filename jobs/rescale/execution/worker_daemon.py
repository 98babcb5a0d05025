"""The daemon that forks Spark's Python workers: PySpark's own, but quiet when a worker finds its socket closed.

At the end of a session the JVM closes the sockets of idle workers and then ends the daemon, which ends them
(`PythonWorkerFactory.stopDaemon`). A worker that wakes up in between has nobody to answer; PySpark's daemon would show
a traceback for that.
"""

from __future__ import annotations

import socket

from pyspark import daemon

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """What `pyspark.daemon.worker` returns: 0 if this worker can take another task."""
    try:
        return _worker(sock, authenticated)
    except BrokenPipeError:
        return 1


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
