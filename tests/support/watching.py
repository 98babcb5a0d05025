"""What a program starts, seen from outside: its processes, their command lines, and where they listen.

Processes are found by a mark in their environment, which each hands on to those that it starts.
"""

from __future__ import annotations

import os
import threading
import uuid
from contextlib import suppress
from types import TracebackType
from typing import Self

import psutil

_MARK = "RESCALE_TEST_MARK"
_PERIOD = 0.5


class Watch:
    """Looks, several times a second for as long as the block runs, at all processes that have `environment`.

    `command_lines` are those seen so far, `addresses` those that were listened on, each with one of who did it.
    """

    def __init__(self) -> None:
        self._mark = uuid.uuid4().hex
        # Airflow gives its processes titles, which else may be written over the environment.
        self.environment = {_MARK: self._mark, "SPT_NOENV": "1"}
        self.command_lines: set[str] = set()
        self.addresses: dict[str, str] = {}
        self._over = threading.Event()
        self._looking = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._looking.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._looking.join()

    def processes(self) -> list[psutil.Process]:
        """Those that run now, but for this one."""
        return [process for process in psutil.process_iter() if process.pid != os.getpid() and self._is_marked(process)]

    def running_lines(self) -> dict[int, str]:
        """Their command lines, by process id."""
        lines = {}
        for process in self.processes():
            with suppress(psutil.Error):
                lines[process.pid] = " ".join(process.cmdline())
        return lines

    def _is_marked(self, process: psutil.Process) -> bool:
        try:
            return process.environ().get(_MARK) == self._mark
        except psutil.Error:
            return False

    def _look(self) -> None:
        while not self._over.wait(_PERIOD):
            for process in self.processes():
                try:
                    line = " ".join(process.cmdline())
                    connections = process.net_connections("inet")
                except psutil.Error:
                    continue
                self.command_lines.add(line)
                for connection in connections:
                    if connection.status == psutil.CONN_LISTEN:
                        self.addresses.setdefault(connection.laddr.ip, line)
