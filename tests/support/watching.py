"""Observes the processes that a program starts: their command lines, and the addresses where they listen.

Processes are found by a mark in their environment, which their children inherit.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

_MARK = "RESCALE_TEST_MARK"
_PERIOD = 0.5

_YOUNG_SECONDS = 10

_SOCKETS = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_STATE, _INODE, _LISTENING = 3, 9, "0A"
"""Columns of the tables `_SOCKETS` with a socket's state and inode, and the state of a listening socket."""


class Watch:
    """Observes all processes with `environment` during the block, with pauses of half a second.

    `environments` has the environment by command line, and `addresses` a command line by the address where it listens.
    """

    def __init__(self) -> None:
        self._mark = uuid.uuid4().hex
        # Airflow sets process titles, which may otherwise overwrite the environment.
        self.environment = {_MARK: self._mark, "SPT_NOENV": "1"}
        self.environments: dict[str, dict[str, str]] = {}
        self.addresses: dict[str, str] = {}
        self._known: dict[int, _SeenProcess] = {}
        self._scan_lock = threading.Lock()
        self._ended = threading.Event()
        self._scanner = threading.Thread(target=self._scan)

    def __enter__(self) -> Self:
        self._scanner.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._scanner.join()

    @property
    def command_lines(self) -> Collection[str]:
        return self.environments.keys()

    def processes(self) -> list[psutil.Process]:
        """Return the processes that run now, except this one."""
        return [seen.process for seen in self._all_processes() if seen.is_marked(self._mark)]

    def _all_processes(self) -> list[_SeenProcess]:
        """Return all processes that run now, provided that no process id is reused between two scans."""
        with self._scan_lock:
            known, self._known = self._known, {}
            for pid in psutil.pids():
                with suppress(psutil.NoSuchProcess):
                    self._known[pid] = known.get(pid) or _SeenProcess(psutil.Process(pid))
            return list(self._known.values())

    def running_lines(self) -> dict[int, str]:
        """Return the command lines of running processes, by process id."""
        lines = {}
        for process in self.processes():
            with suppress(psutil.Error):
                lines[process.pid] = " ".join(process.cmdline())
        return lines

    def _scan(self) -> None:
        noted: set[str] = set()
        while not self._ended.wait(_PERIOD):
            listening = _listening_sockets()
            for process in self.processes():
                with suppress(psutil.Error):
                    self.environments.setdefault(" ".join(process.cmdline()), process.environ())
                    if listening - noted:
                        self._note_addresses(process)
            noted = listening

    def _note_addresses(self, process: psutil.Process) -> None:
        line = " ".join(process.cmdline())
        for connection in process.net_connections("inet"):
            if connection.status == psutil.CONN_LISTEN:
                self.addresses.setdefault(connection.laddr.ip, line)


class _SeenProcess:
    """A process, and whether its environment has the mark; a young process may still get the mark."""

    def __init__(self, process: psutil.Process) -> None:
        self.process = process
        self._since = time.monotonic()
        self._marked: bool | None = None

    def is_marked(self, mark: str) -> bool:
        if self._marked is not None:
            return self._marked
        try:
            marked = self.process.pid != os.getpid() and self.process.environ().get(_MARK) == mark
        except psutil.Error:
            return False
        if marked or time.monotonic() - self._since > _YOUNG_SECONDS:
            self._marked = marked
        return marked


def has_ended(process: psutil.Process) -> bool:
    """Return whether a process has ended, also if no parent has read its exit code, as in some containers."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _listening_sockets() -> set[str]:
    """Return the inodes of listening sockets on this machine; finding their processes takes much longer."""
    lines = [line.split() for name in _SOCKETS for line in name.read_text().splitlines()[1:]]
    return {fields[_INODE] for fields in lines if fields[_STATE] == _LISTENING}
