"""Processes that the demo starts, and that are gone when it ends: they, and everything that came of them.

A process hands its environment on to those that it starts, also to such as outlive it or leave its session. So each
process that is started here gets a mark into its environment, and what bears the mark belongs to it. The demo has one,
too, by which a process that outlives it (`guard`) finds what is left of a demo that was killed.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType

import psutil

from rescale.errors import RescaleError

Process = subprocess.Popen[bytes]

_MARK = "RESCALE_DEMO_PROCESS"
_MARK_OF_ALL = "RESCALE_DEMO"
_KEEP_ENVIRONMENT = "SPT_NOENV"
"""Airflow gives its processes titles; without this, a long one is written over the environment."""

_GRACE_SECONDS = 20
_LAST_LINES = 15


@contextmanager
def interrupted_once() -> Iterator[Callable[[], None]]:
    """In the block, the first Ctrl-C (or SIGTERM) interrupts, and no other one disturbs the tidying up after it.

    The function that the block gets is for one that ends by itself: from then on nothing interrupts it.
    """
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {int(number): signal.getsignal(number) for number in signals}

    def ignore() -> None:
        for number in signals:
            signal.signal(number, signal.SIG_IGN)

    def interrupt(number: int, frame: FrameType | None) -> None:
        ignore()
        if callable(answer := before[number]):  # it tells which of them it was
            answer(number, frame)
        raise KeyboardInterrupt

    for number in signals:
        signal.signal(number, interrupt)
    yield ignore
    # Not after an interruption: this process has nothing to do then but to end, and goes on to ignore the impatient.
    for one, handler in before.items():
        signal.signal(one, handler)


@contextmanager
def demo_folder() -> Iterator[Path]:
    """A temporary folder until the block ends; if this process is killed in it, the folder goes with all that it has
    started."""
    mark = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="rescale-demo-") as folder:
        command = [sys.executable, "-m", "rescale.demo.guard", mark, folder]
        safely = {**os.environ, "PYTHONSAFEPATH": "1"}  # a `random.py` in the working directory is not imported
        guard = subprocess.Popen(command, stdin=subprocess.PIPE, env=safely, start_new_session=True)
        os.environ[_MARK_OF_ALL] = mark
        try:
            yield Path(folder)
        finally:
            del os.environ[_MARK_OF_ALL]
            guard.communicate()  # closes its pipe, and waits for its end


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(command: Sequence[str], environment: Mapping[str, str], log: Path | None) -> Iterator[Process]:
    """The process for as long as the block runs, in a session of its own: Ctrl-C reaches the demo alone.

    Its output goes to `log`; None: to where the demo's goes.
    """
    mark = uuid.uuid4().hex
    marked = {**environment, _MARK: mark, _KEEP_ENVIRONMENT: "1"}
    try:
        with log.open("ab") if log else nullcontext() as output:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=marked, start_new_session=True
            )
        yield process
    finally:
        _end(_MARK, mark)


def ask_to_end(processes: Iterable[Process]) -> None:
    """Asks them all at once, so that whoever ends one after the other need not wait for each of them anew."""
    for process in processes:
        process.terminate()


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


def end_demo(mark: str) -> None:
    """Ends what a demo has started."""
    _end(_MARK_OF_ALL, mark)


def _end(variable: str, mark: str) -> None:
    """Ends what bears the mark: politely, then for good, until there is nothing left."""
    family = _family(variable, mark)
    for member in family:
        with suppress(psutil.NoSuchProcess):
            member.terminate()
    psutil.wait_procs(family, _GRACE_SECONDS)
    while family := _family(variable, mark):
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        psutil.wait_procs(family, _GRACE_SECONDS)


def _family(variable: str, mark: str) -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if _mark(process, variable) == mark]


def _mark(process: psutil.Process, variable: str) -> str | None:
    try:
        return process.environ().get(variable)
    except psutil.Error:  # it has ended, or is somebody else's
        return None
