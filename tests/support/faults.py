"""A twin of the store that fails, or dies with all that belongs to its run, at a chosen call.

Calls are counted over all processes of a run: each adds a line to one journal, under a lock, and its number is the
line's. A run is the processes that carry the journal's directory in their environment, which is how it is ended as by
a power cut: PySpark's daemon and every step have process groups of their own, so a signal to one group would leave
some of them writing.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, wraps
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from rescale.errors import RescaleError
from rescale.storage import store
from rescale.storage.store import Store

VARIABLE = "RESCALE_TEST_FAULTS"
_TESTS = Path(__file__).parents[1]
_STARTUP = Path(__file__).with_name("startup")


class Moment(StrEnum):
    """Before the call is made, or after: then it is done, and only its answer is lost."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True)
class Fault:
    """What happens at call number `call` (from 1): `error` is raised, or without one the whole run is killed."""

    call: int
    moment: Moment
    error: RescaleError | None = None


class Faults:
    """The journal of a run's calls and the fault that waits in it; all its processes share the directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._journal = directory / "journal"
        self._planted = directory / "fault.json"

    def plant(self, fault: Fault) -> None:
        error = fault.error.to_json() if fault.error else None
        self._planted.write_text(json.dumps({"call": fault.call, "moment": fault.moment, "error": error}))

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to belong to the run, with all that it starts."""
        path = [str(_STARTUP), str(_TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {VARIABLE: str(self._directory), "PYTHONPATH": os.pathsep.join(path)}

    @property
    def calls(self) -> list[str]:
        """All calls so far, in order: the verb and its places."""
        return self._journal.read_text().splitlines() if self._journal.exists() else []

    def begin(self, call: str) -> int:
        """Enters a call into the journal; returns its number."""
        with self._locked() as journal:
            journal.write(call.encode("unicode_escape") + b"\n")
            journal.flush()
            journal.seek(0)
            return journal.read().count(b"\n")

    def strike(self, call: int, moment: Moment) -> None:
        """Lets the planted fault happen if this is its moment."""
        if not self._planted.exists():
            return
        fault = json.loads(self._planted.read_text())
        if (fault["call"], fault["moment"]) != (call, moment):
            return
        if fault["error"] is not None:
            raise RescaleError.from_json(fault["error"])
        with self._locked():  # no other process begins a call any more
            self._kill_the_run()

    @contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        with self._journal.open("a+b") as journal:
            fcntl.flock(journal, fcntl.LOCK_EX)
            yield journal

    def _kill_the_run(self) -> NoReturn:
        while others := _processes_with(f"{VARIABLE}={self._directory}") - {os.getpid()}:
            for number in (signal.SIGSTOP, signal.SIGKILL):  # all stand still before the first one ends
                for process in others:
                    _send(process, number)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("a process outlived SIGKILL")


class FaultyStore:
    """A `Store` that does what `inner` does, and what `faults` say."""

    def __init__(self, inner: Store, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    def __getattr__(self, verb: str) -> Any:
        method = getattr(self._inner, verb)

        @wraps(method)
        def call(place: Any, *arguments: Any, **named: Any) -> Any:
            places = [place] if isinstance(place, str) else list(place)
            number = self._faults.begin(" ".join([verb, *places]))
            self._faults.strike(number, Moment.BEFORE)
            answer = method(place if isinstance(place, str) else places, *arguments, **named)
            self._faults.strike(number, Moment.AFTER)
            return answer

        return call


def install() -> None:
    """Puts the twin in the place of the stores of this process, if its environment says so."""
    directory = os.environ.get(VARIABLE)
    if directory is None:
        return
    faults = Faults(Path(directory))
    store._local = _twin_of(store._local, faults)
    store._s3 = _twin_of(store._s3, faults)


def _twin_of(make: Any, faults: Faults) -> Any:
    return cache(lambda: FaultyStore(make(), faults))


def _processes_with(entry: str) -> set[int]:
    """The processes that were started with this entry in their environment and have not ended."""
    found = set()
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                environment = (directory / "environ").read_bytes()
            except OSError:  # gone, or not ours to see
                continue
            if entry.encode() in environment.split(b"\0"):
                found.add(int(directory.name))
    return found


def _send(process: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, number)
