"""Processes of the demo: when the demo ends, they and all their descendants end.

A process passes its environment on to its children, even to those that outlive it or leave its session. So each process
that is started here gets a mark in its environment, and all processes with this mark are its descendants. The demo has
a mark, too: a process that outlives the demo (`guard`) finds the remaining processes of a killed demo by this mark.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType

import psutil

from rescale.storage.files import owned
from rescale.storage.scratch import ScratchKind, scratch_folder, temporary_directory
from rescale.text.errors import RescaleError

Process = subprocess.Popen[bytes]

_PROCESS_MARK_VARIABLE = "RESCALE_DEMO_PROCESS"
DEMO_MARK_VARIABLE = "RESCALE_DEMO"
_KEEP_ENVIRONMENT_VARIABLE = "SPT_NOENV"
"""Variable that keeps `setproctitle`, with which Airflow names its processes, from overwriting their environment."""

_PORTS = range(10_000, 30_000)
"""Ports that systems do not use for outgoing connections: a free one stays free until its server starts."""

_GRACE_SECONDS = 20
_MOST_LOG_LINES = 15


@contextmanager
def interrupted_once() -> Iterator[Callable[[], None]]:
    """Let the first Ctrl-C (or SIGTERM) interrupt the block, and ignore all others, so that cleaning up completes.

    Yields a function for the block to call before it ends normally: it makes the demo ignore all interruptions.
    """
    signals = (signal.SIGINT, signal.SIGTERM)
    handler_by_signal = {int(number): signal.getsignal(number) for number in signals}

    def ignore() -> None:
        for number in signals:
            signal.signal(number, signal.SIG_IGN)

    def interrupt(number: int, frame: FrameType | None) -> None:
        ignore()
        if callable(handler_before := handler_by_signal[number]):  # a handler in Python raises an exception
            handler_before(number, frame)
        raise KeyboardInterrupt

    for number in signals:
        signal.signal(number, interrupt)
    yield ignore
    # This is not reached after an interruption: the process then only has to end, and keeps ignoring signals.
    for signal_number, handler in handler_by_signal.items():
        signal.signal(signal_number, handler)


@contextmanager
def demo_folder() -> Iterator[Path]:
    """Yield a temporary folder that is removed when the block ends.

    If this process is killed in the block, the guard ends all its descendants and removes the folder.
    """
    mark = uuid.uuid4().hex
    with scratch_folder(Path(temporary_directory()), ScratchKind.DEMO) as folder:
        command = [sys.executable, "-m", "rescale.demo.guard", mark, str(folder)]
        # PYTHONSAFEPATH keeps Python from importing a `random.py` in the working directory.
        environment = {**os.environ, "PYTHONSAFEPATH": "1"}
        guard = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, start_new_session=True)
        os.environ[DEMO_MARK_VARIABLE] = mark
        try:
            yield folder
        finally:
            del os.environ[DEMO_MARK_VARIABLE]
            guard.communicate()  # closes the pipe and waits for the guard


def free_port() -> int:
    """Return a port of 127.0.0.1 where a server can listen."""
    return next(free_ports())


def free_ports() -> Iterator[int]:
    """Yield ports of 127.0.0.1 where servers can listen, in random order: two processes rarely get the same port."""
    return filter(_is_free, random.SystemRandom().sample(_PORTS, len(_PORTS)))


def _is_free(port: int) -> bool:
    with socket.socket() as probe, suppress(OSError):
        probe.bind(("127.0.0.1", port))
        return True
    return False


@contextmanager
def running(command: Sequence[str], environment: Mapping[str, str], log: Path | None) -> Iterator[Process]:
    """Run a process during the block, in its own session, so that Ctrl-C reaches only the demo.

    Its output goes to `log`, or to the output of the demo if `log` is None.
    """
    mark = uuid.uuid4().hex
    marked_environment = {**environment, _PROCESS_MARK_VARIABLE: mark, _KEEP_ENVIRONMENT_VARIABLE: "1"}
    try:
        with owned.open_to_append(log) if log else nullcontext() as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=marked_environment,
                start_new_session=True,
            )
        yield process
    finally:
        end_processes(_PROCESS_MARK_VARIABLE, mark)


def wait_until(
    is_ready: Callable[[], bool], process: Process, log: Path, process_name: str, timeout_seconds: float
) -> None:
    """Wait until `is_ready` is true. Raises `RescaleError` if `process` ends or the seconds pass before that."""
    deadline = time.monotonic() + timeout_seconds
    while not is_ready():
        if process.poll() is not None:
            raise process_error(f"{process_name} ended", log)
        if time.monotonic() > deadline:
            raise process_error(f"{process_name} did not start within {timeout_seconds:.0f} seconds", log)
        time.sleep(0.2)


def process_error(what: str, log: Path) -> RescaleError:
    """Return the error `what` about a process, with the end of its log."""
    lines = log.read_text(errors="replace").splitlines()
    return RescaleError(what, found="\n    ".join(["the end of its log:", *lines[-_MOST_LOG_LINES:]]))


def end_processes(variable: str, mark: str) -> None:
    """End all processes with the mark: first by SIGTERM, then by SIGKILL, until none is left."""
    processes = _marked_processes(variable, mark)
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    psutil.wait_procs(processes, _GRACE_SECONDS)
    while processes := _marked_processes(variable, mark):
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes, _GRACE_SECONDS)


def _marked_processes(variable: str, mark: str) -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if _mark(process, variable) == mark]


def _mark(process: psutil.Process, variable: str) -> str | None:
    try:
        return process.environ().get(variable)
    except psutil.Error:  # the process has ended, or belongs to another user
        return None
