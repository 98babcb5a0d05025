"""A worker process: runs the tasks that come over a connection, until the driver closes it.

The driver sends one task at a time. With the worker's first task of a stage, it also sends the function of the stage.
The worker reports the bytes done at most every 0.2 s, and the result or an error at the end of each task.
"""

from __future__ import annotations

import os
import pickle
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from rescale.execution.meter import METER, StepCounters
from rescale.execution.tasks.shared_function import SharedFunction
from rescale.text.errors import RescaleError, as_rescale_error

_SECONDS_BETWEEN_REPORTS = 0.2

StageWork = Callable[[Any, Callable[[int], None]], Any]
"""Function of a stage. Takes a task, and a function to which it reports the bytes done; returns the task's result."""


class Task(NamedTuple):
    """A pickled task (`packed`). `work` is the function of its stage; None if this worker has already received it."""

    work: SharedFunction[StageWork] | None
    packed: bytes


class Report(NamedTuple):
    """Number of bytes done since the last report of a task."""

    bytes_done: int


class EndedTask(NamedTuple):
    """The end of a task: the bytes done since its last report, its pickled result or its error, and its counters."""

    bytes_done: int
    packed: bytes
    error: RescaleError | None
    counters: StepCounters


def serve(connection: Connection) -> None:
    """Run tasks until the driver closes its side of the connection."""
    threading.Thread(target=_end_with_the_driver, args=(connection.fileno(),), daemon=True).start()
    work: SharedFunction[StageWork] | None = None
    with suppress(EOFError, OSError):
        while True:
            task: Task = connection.recv()
            work = task.work or work
            assert work is not None
            connection.send(_run_task(work, task.packed, connection))


def _run_task(work: SharedFunction[StageWork], packed: bytes, connection: Connection) -> EndedTask:
    counters_before, reports = METER.read(), _Reports(connection)
    try:
        result = pickle.dumps(work.unpack()(pickle.loads(packed), reports.add))
    except Exception as error:
        return EndedTask(0, b"", as_rescale_error(error), METER.process_since(counters_before))
    return EndedTask(reports.unreported_bytes, result, None, METER.process_since(counters_before))


class _Reports:
    """Reports of the bytes that a task has done; `unreported_bytes` are not reported yet."""

    def __init__(self, connection: Connection) -> None:
        self.unreported_bytes = 0
        self._connection = connection
        self._next_report = time.monotonic() + _SECONDS_BETWEEN_REPORTS

    def add(self, bytes_done: int) -> None:
        self.unreported_bytes += bytes_done
        if (now := time.monotonic()) >= self._next_report:
            self._next_report = now + _SECONDS_BETWEEN_REPORTS
            self._connection.send(Report(self.unreported_bytes))
            self.unreported_bytes = 0


def _end_with_the_driver(descriptor: int) -> None:
    """End this process when the driver closes its side of the connection, even in the middle of a task."""
    poll = select.poll()
    poll.register(descriptor, 0)  # registered for no event, because poll(2) reports a hang-up anyway
    poll.poll()
    os._exit(1)
