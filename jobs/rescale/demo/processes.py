"""Processes that the demo starts, and that are gone when it ends: they, and everything that came of them."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import psutil

from rescale.errors import RescaleError

Process = subprocess.Popen[bytes]

_GRACE_SECONDS = 20
_LAST_LINES = 15


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(command: Sequence[str], environment: Mapping[str, str], log: Path | None) -> Iterator[Process]:
    """The process for as long as the block runs, in a session of its own: Ctrl-C reaches the demo alone.

    Its output goes to `log`; None: to where the demo's goes.
    """
    with log.open("ab") if log else nullcontext() as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
        )
    try:
        yield process
    finally:
        _end(process)


def completed(command: Sequence[str], environment: Mapping[str, str], log: Path, what: str) -> None:
    """Runs a process to its end; `RescaleError` with the end of its log if that is not a good one."""
    with running(command, environment, log) as process:
        if process.wait():
            raise failure(f"{what} failed", log)


def wait_until(ready: Callable[[], bool], process: Process, log: Path, what: str, seconds: float) -> None:
    """Waits for `ready`, while `process` runs; `RescaleError` if that is not to be."""
    deadline = time.monotonic() + seconds
    while not ready():
        if process.poll() is not None:
            raise failure(f"{what} ended", log)
        if time.monotonic() > deadline:
            raise failure(f"{what} did not start within {seconds:.0f} seconds", log)
        time.sleep(0.2)


def failure(what: str, log: Path) -> RescaleError:
    lines = log.read_text(errors="replace").splitlines()
    return RescaleError(what, found="\n    ".join(["the end of its log:", *lines[-_LAST_LINES:]]))


def _end(process: Process) -> None:
    family = _family(process)
    with suppress(ProcessLookupError):
        process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_SECONDS)
    for member in family:
        with suppress(psutil.NoSuchProcess):
            member.kill()
    psutil.wait_procs(family, _GRACE_SECONDS)
    process.wait()


def _family(process: Process) -> list[psutil.Process]:
    """The process, what descends from it, and what is left in its session of what was orphaned."""
    members = {member for member in psutil.process_iter() if _session(member) == process.pid}
    with suppress(psutil.NoSuchProcess):
        members |= {psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)}
    return list(members)


def _session(process: psutil.Process) -> int | None:
    try:
        return os.getsid(process.pid)
    except (ProcessLookupError, PermissionError):
        return None
