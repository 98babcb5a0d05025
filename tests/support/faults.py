"""Stores whose calls fail on request, in this process and in the processes that it starts.

Calls of all processes are counted in one log, a call per line, so that "the k-th call" means the same everywhere. A
process gets the faulty stores if Python finds `VARIABLE` in its environment at start-up (see `environment`). Such a
process starts workers even for little work.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from rescale.storage import store as stores
from rescale.storage.contract import CopyRefused, Span
from rescale.storage.store import Store
from rescale.text.errors import StoreError, UnsupportedError

VARIABLE = "RESCALE_TEST_FAULTS"
WRITES = (
    "put",
    "put_if_absent",
    "delete",
    "begin_parts",
    "put_part",
    "copy",
    "keep",
    "copy_part",
    "complete_parts",
    "abort_parts",
)
_HOOK = """
from rescale.planning import little_work
from support.faults import install_from_environment
little_work.LITTLE_BYTES = -1
install_from_environment()
"""


class Kind(StrEnum):
    """Kind of fault. An error is raised before the call, or instead of its answer."""

    NONE = "none"
    KILL = "kill"
    """Kill the whole session: a driver with its JVM and its workers."""

    KILL_WORKER = "kill worker"
    """Kill a worker of a driver on this machine; calls of the driver do not count."""

    KILL_EXECUTOR = "kill executor"
    """Kill an executor of a cluster with its workers; calls of the driver do not count."""

    KILL_JVM = "kill jvm"
    """Kill the JVM of the driver, which continues without it; calls before it exists do not count."""

    KILL_DRIVER = "kill driver"
    """Kill only this process, which is the driver."""

    ERROR = "error"
    LOST_ANSWER = "lost answer"
    UNCONDITIONAL = "unconditional"
    """At every call: the store accepts conditional puts and ignores the condition."""

    REFUSED = "refused"
    """At every call: the store does not support conditional puts."""

    NO_COPIES = "no copies"
    """At every call: the store does not support copies."""


@dataclass(frozen=True)
class Faults:
    """A single fault of this `kind`, at the `at`-th call (from 1) whose line in the file `log` contains `where`.

    With `writes_only`, only writes are counted.
    """

    log: str
    kind: Kind = Kind.NONE
    at: int = 1
    where: str = ""
    writes_only: bool = False

    def calls(self) -> list[str]:
        """Return the lines of the log: verb and URI of each counted call, with start and length for reads."""
        return Path(self.log).read_text().splitlines() if Path(self.log).exists() else []

    def environment(self, home: Path, *more: Faults) -> dict[str, str]:
        """Return environment variables that give a process these faults; `home` is an empty directory for the hook.

        `more` are further faults, each with a log of its own.
        """
        (home / "sitecustomize.py").write_text(_HOOK)
        paths = (str(home), str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", ""))
        return {
            VARIABLE: json.dumps([asdict(fault) for fault in (self, *more)]),
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        }

    def _is_due(self, line: str) -> bool:
        """Count a call; return whether the fault is due."""
        with open(self.log, "a+") as log:
            fcntl.flock(log, fcntl.LOCK_EX)
            log.write(f"{line}\n")
            log.flush()
            log.seek(0)
            return self.where in line and sum(self.where in line for line in log) == self.at

    def around(self, verb: str, subject: str, call: Callable[[], Any]) -> Any:
        """Make a call, with the fault if it is due."""
        victim = _VICTIMS[self.kind]() if self.kind in _VICTIMS else os.getpid()
        if victim is None:
            return call()
        if (self.writes_only and verb not in WRITES) or not self._is_due(f"{verb} {subject}"):
            return call()
        if self.kind is Kind.KILL:
            _kill_session()
        if self.kind in _KILLS:
            os.kill(victim, signal.SIGKILL)
        if self.kind is Kind.LOST_ANSWER:
            call()
        if self.kind in (Kind.ERROR, Kind.LOST_ANSWER):
            raise StoreError(f"planted: {self.kind}", path=subject)
        return call()


class FaultyStore:
    """A store with faults."""

    def __init__(self, store: Store, faults: Faults) -> None:
        self._store = store
        self._faults = faults

    def __getattr__(self, verb: str) -> Any:
        replacement = _ALWAYS.get(self._faults.kind)
        store = replacement(self._store) if replacement and verb in vars(replacement) else self._store
        call = getattr(store, verb)
        if not callable(call) or verb == "chunk_size":  # `chunk_size` sends no request
            return call

        def counted(subject: Any, *arguments: Any) -> Any:
            named = subject if isinstance(subject, str) else " ".join(subject)
            if verb == "read":
                named = " ".join(map(str, (named, *arguments[:2])))
            return self._faults.around(verb, named, lambda: call(subject, *arguments))

        return counted


@dataclass(frozen=True)
class _Unconditional:
    """Methods of a store that ignores the condition of a put."""

    store: Store

    def put_if_absent(self, uri: str, data: bytes) -> bool:
        self.store.put(uri, data)
        return True

    def honours_conditions(self, uri: str, data: bytes) -> bool:
        self.store.put(uri, data)
        return False


@dataclass(frozen=True)
class _Refusing:
    """Method of a store without conditional puts."""

    store: Store

    def put_if_absent(self, uri: str, data: bytes) -> bool:  # noqa: ARG002
        raise UnsupportedError(
            "planted: the store supports no conditions", path=uri, advice="say --accept-unconditional-publish"
        )


@dataclass(frozen=True)
class _Uncopying:
    """Methods of a store that refuses every copy."""

    store: Store

    def copy(self, uri: str, source: Span) -> None:  # noqa: ARG002
        raise CopyRefused("planted: the store makes no copies")

    def copy_part(self, uri: str, upload_id: str, number: int, offset: int, source: Span) -> str:  # noqa: ARG002
        raise CopyRefused("planted: the store makes no copies")


_ALWAYS: dict[Kind, type[Any]] = {
    Kind.UNCONDITIONAL: _Unconditional,
    Kind.REFUSED: _Refusing,
    Kind.NO_COPIES: _Uncopying,
}


def install(faults: Faults) -> None:
    """Give all stores of this process these faults from now on."""
    local, s3 = stores._local, stores._s3
    stores._local = lambda: FaultyStore(local(), faults)  # type: ignore[assignment]
    stores._s3 = lambda: FaultyStore(s3(), faults)  # type: ignore[assignment]


def install_from_environment(environment: Mapping[str, str] = os.environ) -> None:
    if VARIABLE in environment:
        for document in json.loads(environment[VARIABLE]):
            install(Faults(**{**document, "kind": Kind(document["kind"])}))


@cache
def _executor() -> int | None:
    """Return the process id of this worker's executor, None outside a worker."""
    process = os.getppid()
    while process > 1:
        if b"CoarseGrainedExecutorBackend" in _command_line(process):
            return process
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return None


def _worker() -> int | None:
    """Return the id of this process if it is a worker: a fork of the worker server, with the same command line."""
    return os.getpid() if b"worker_server" in _command_line(os.getpid()) else None


def _jvm() -> int | None:
    """Return the process id of the driver's JVM in this session; None before it runs Spark."""
    return next((process for process in _session() if b"SparkSubmit" in _command_line(process)), None)


def _command_line(process: int) -> bytes:
    """Return the command line of a process, empty if it has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def _kill_session() -> None:
    """Kill all processes of this session, this process last: a driver, its JVM and its workers."""
    for pid in _session():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _session() -> list[int]:
    """Return the ids of the other processes of this session."""
    session, members = os.getsid(0), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(ProcessLookupError):
                if os.getsid(int(entry.name)) == session:
                    members.append(int(entry.name))
    return members


_VICTIMS: dict[Kind, Callable[[], int | None]] = {
    Kind.KILL_EXECUTOR: _executor,
    Kind.KILL_JVM: _jvm,
    Kind.KILL_WORKER: _worker,
}
_KILLS = (Kind.KILL_DRIVER, *_VICTIMS)
