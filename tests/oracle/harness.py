"""Real Flink takes snapshots, restores them, and compares the restored state with the expected state.

One JVM for each Flink release runs a whole cluster and handles many cases, one after the other. A command is a line of
JSON on the JVM's standard input, and its answer is a line on standard output. Flink's log goes to a file. The expected
state of a restored job is computed in Java from the seed of the case. A difference is a line of text. If Flink refuses
a command, a `FlinkError` has Flink's own message.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from oracle.distribution import (
    cache_folder,
    classes,
    flink_home,
    kafka_classes,
    kafka_connector_jars,
    logging_configuration,
    s3_file_system_jar,
    state_processor_api,
    state_processor_classes,
)

# Options that Flink's own start scripts pass to Java 17.
_EXPORTS = ("java.rmi/sun.rmi.registry", "java.security.jgss/sun.security.krb5")
_OPENS = ("lang", "net", "io", "nio", "lang.reflect", "text", "time", "util", "util.concurrent")
_OPENS_MORE = ("sun.nio.ch", "java.util.concurrent.atomic", "java.util.concurrent.locks")

PATIENCE_SECONDS = 240
"""Time limit of a command: many times as long as it takes on an idle machine."""

_START_SECONDS = 300
_GRACE_SECONDS = 90


class FlinkError(Exception):
    """Flink (or the harness in the JVM) refused a command; the text is Flink's chain of messages."""


@dataclass(frozen=True)
class Job:
    """A scenario with its parameters, parallelism, state backend and options.

    The scenario's Java class documents its `parameters`. `exceptions` gives single operators another parallelism, by
    name, and `max_exceptions` another max parallelism, if they are not chained. `max_parallelism` is None if the user
    never set it. `configuration` holds other options of Flink. `uids` maps uids of operators to new ones; "" removes
    the uid.
    """

    scenario: str
    parallelism: int
    parameters: Mapping[str, int] = field(default_factory=dict)
    exceptions: Mapping[str, int] = field(default_factory=dict)
    max_parallelism: int | None = None
    max_exceptions: Mapping[str, int] = field(default_factory=dict)
    backend: str = "hashmap"
    compression: bool = False
    configuration: Mapping[str, str] = field(default_factory=dict)
    uids: Mapping[str, str] = field(default_factory=dict)

    def with_(self, **changes: Any) -> Job:
        return replace(self, **changes)

    def document(self) -> dict[str, Any]:
        """Return the document that the JVM reads; an option whose name differs between releases has both names."""
        document = asdict(self)
        backend = document.pop("backend")
        document["max_parallelism"] = self.max_parallelism or 0
        document["configuration"] = {
            "state.backend": backend,
            "state.backend.type": backend,
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            **self.configuration,
        }
        return document


def jvm_options() -> list[str]:
    """Return options for a JVM that starts fast and has the modules open that Flink needs."""
    opens = [f"java.base/java.{name}" for name in _OPENS] + [f"java.base/{name}" for name in _OPENS_MORE]
    return [
        *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        *(f"--add-exports={name}=ALL-UNNAMED" for name in _EXPORTS),
        *(f"--add-opens={name}=ALL-UNNAMED" for name in opens),
    ]


@dataclass(frozen=True)
class Verdict:
    """Result of a restore: the first differences, and the number of comparisons of each kind.

    `checkpoints_until_deleted` is the number of checkpoints after which Flink deleted a claimed snapshot (-1: not after
    four). `next_snapshot` is the snapshot that the restored job took, if `keep` was given.
    """

    differences: tuple[str, ...]
    number_of_differences: int
    comparisons: Mapping[str, int]
    checkpoints_until_deleted: int | None = None
    next_snapshot: Path | None = None

    @property
    def ok(self) -> bool:
        return self.number_of_differences == 0 and sum(self.comparisons.values()) > 0

    def __str__(self) -> str:
        return "\n".join(
            [f"{self.number_of_differences} differences; compared {dict(self.comparisons)}", *self.differences]
        )


class SnapshotAndResults(NamedTuple):
    """A snapshot, and all results that its job had emitted before."""

    path: Path
    results: tuple[str, ...]


class Flink:
    """A running Flink of one release. A context manager; many cases share it.

    `options` are further options of the cluster, which a job's own configuration cannot set. With an option that begins
    with `s3.`, Flink's S3 file system is loaded. `kafka` is a release of the Kafka connector; with it, the scenarios
    that read from Kafka are loaded. `processor` is a release of the State Processor API, and loads the scenarios that
    use it. `jvm` are further options of the JVM.
    """

    def __init__(
        self,
        version: str,
        options: Mapping[str, str] | None = None,
        *,
        kafka: str | None = None,
        processor: str | None = None,
        jvm: Sequence[str] = (),
    ) -> None:
        self.version = version
        self._work = Path(tempfile.mkdtemp(prefix=f"flink-{version}-"))
        logs = cache_folder() / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        self.log = logs / f"flink-{version}-{os.getpid()}.log"
        jars = [classes(version), *flink_home(version)]
        if any(option.startswith("s3.") for option in options or {}):
            jars.append(s3_file_system_jar(version))
        if kafka:
            jars += [kafka_classes(version, kafka), *kafka_connector_jars(kafka)]
        if processor:
            jars += [state_processor_classes(version, processor), state_processor_api(processor)]
        command = [
            *("java", "-Xms1200m", "-Xmx1200m", "-Xmn600m", "-XX:MaxDirectMemorySize=1g", *jvm_options(), *jvm),
            f"-Dlog4j.configurationFile={logging_configuration()}",
            *("-cp", os.pathsep.join(map(str, jars))),
            *("harness.Server", str(self._work), json.dumps(dict(options or {}))),
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, bufsize=0
            )
        self._pending = b""
        try:
            self._read(_START_SECONDS)
        except BaseException:
            self._kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the JVM and remove what it kept on disk."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._kill()
        self._process.stdout.close()
        shutil.rmtree(self._work, ignore_errors=True)

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def command(self, name: str, *, timeout: float = PATIENCE_SECONDS, **arguments: Any) -> Any:
        """Return the answer to a command, which runs in the JVM; kill the JVM if the wait is interrupted."""
        line = json.dumps({"command": name, "timeout": timeout, **arguments})
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            answer = self._read(timeout + _GRACE_SECONDS)
        except BrokenPipeError:
            raise FlinkError(f"Flink {self.version} is gone; its log: {self.log}") from None
        except BaseException:
            self._kill()  # a late answer would be taken for that of the next command
            raise
        if "error" in answer:
            raise FlinkError(answer["error"])
        return answer["result"]

    def _read(self, timeout: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                if not selector.select(timeout):
                    raise FlinkError(f"Flink {self.version} did not answer; its log: {self.log}")
                data = os.read(self._process.stdout.fileno(), 1 << 16)
                if not data:
                    raise FlinkError(f"Flink {self.version} ended; its log: {self.log}")
                self._pending += data
        line, self._pending = self._pending.split(b"\n", 1)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def snapshot(self, job: Job, directory: Path, *kinds: str, timeout: float = PATIENCE_SECONDS) -> Path:
        """Take snapshots as `snapshots` does, and return the directory of the last."""
        return self.snapshots(job, directory, *kinds, timeout=timeout)[-1]

    def snapshots(
        self,
        job: Job,
        directory: Path,
        *kinds: str,
        restored: Path | None = None,
        claim_mode: str = "NO_CLAIM",
        timeout: float = PATIENCE_SECONDS,
    ) -> list[Path]:
        """Run the first phase of `job`, take snapshots of these kinds below `directory`, and return their paths.

        A kind is `canonical` (the default), `native` or `checkpoint` (retained). Four other kinds take no snapshot:

        * `wave` lets the job run on for a while;
        * `gate…` waits until a file of that name lies in `directory`;
        * `pause` waits for two seconds;
        * `details` writes a file with the answer of Flink's REST API about the job.

        If the snapshot `restored` is given, the job is restored from it and does not run its first phase.
        """
        answer = self.command(
            "snapshot",
            timeout=timeout,
            job=job.document(),
            directory=str(directory),
            kinds=list(kinds or ("canonical",)),
            restored=str(restored or ""),
            claim_mode=claim_mode,
        )
        return [Path(path) for path in answer["paths"]]

    def collect(
        self,
        job: Job,
        directory: Path,
        result_count: int,
        *,
        kinds: Sequence[str] = ("canonical",),
        restored: Path | None = None,
    ) -> SnapshotAndResults:
        """Run `job`, restored from `restored` if given, until it has emitted this many results; then take snapshots.

        Each of `kinds` is as in `snapshots`, or `stop`: a savepoint that ends the job. Return the last snapshot.
        """
        answer = self.command(
            "collect",
            timeout=PATIENCE_SECONDS,
            job=job.document(),
            directory=str(directory),
            results=result_count,
            kinds=list(kinds),
            restored=str(restored or ""),
        )
        return SnapshotAndResults(Path(answer["path"]), tuple(answer["results"]))

    def run(self, job: Job, *, timeout: float = PATIENCE_SECONDS) -> tuple[str, ...]:
        """Run `job`, which ends by itself, and return what it emitted."""
        answer = self.command("run", timeout=timeout, job=job.document())
        return tuple(answer["results"])

    def restore(
        self,
        path: Path | str,
        source: Job,
        job: Job,
        *,
        claim_mode: str = "NO_CLAIM",
        per_subtask: bool = False,
        next_kind: str | None = None,
        keep: Path | None = None,
        shown_count: int = 20,
        timeout: float = PATIENCE_SECONDS,
    ) -> Verdict:
        """Restore the snapshot `path` of `source` as `job`, and compare state and results with the expected ones.

        `per_subtask`: SPLIT elements must lie where Flink's own redistribution from the parallelism of `source` to that
        of `job` puts them. `next_kind`: the kind of a snapshot to take of the restored job and to restore once more; it
        is kept below `keep` if that is given. In claim mode `CLAIM`, checkpoints are taken until Flink has deleted the
        snapshot. The verdict lists the first `shown_count` differences.
        """
        answer = self.command(
            "restore",
            timeout=timeout,
            path=str(path),
            source=source.document(),
            job=job.document(),
            claim_mode=claim_mode,
            per_subtask=per_subtask,
            next=next_kind or "",
            keep=str(keep or ""),
            shown=shown_count,
        )
        return Verdict(
            tuple(answer["differences"]),
            answer["number_of_differences"],
            answer["compared"],
            answer.get("subsumed_after"),
            Path(answer["taken"]) if keep is not None else None,
        )

    def describe(self, path: Path | str) -> dict[str, Any]:
        """Return the description of a snapshot's `_metadata` by Flink's own reader."""
        answer: dict[str, Any] = self.command("describe", path=str(path))
        return answer

    def expected(self, job: Job) -> dict[str, Any]:
        """Return the state in a snapshot of `job`: keyed values by state and key, operator elements by state."""
        answer: dict[str, Any] = self.command("expected", job=job.document())
        return answer

    def redistribute(self, old: Sequence[Sequence[Mapping[str, Any]]], parallelism: int) -> list[list[dict[str, Any]]]:
        """Return the elements of each new subtask, by Flink's `RoundRobinOperatorStateRepartitioner`.

        `old` holds for each old subtask its states `{"name", "mode", "elements": how many}`, `mode` a name of Flink's
        `OperatorStateHandle.Mode`. The answer holds for each new subtask pieces `{"name", "from": old subtask,
        "elements": their numbers}`.
        """
        answer: list[list[dict[str, Any]]] = self.command(
            "redistribute", old=[[dict(part) for part in parts] for parts in old], parallelism=parallelism
        )
        return answer

    def key_groups(self, **inputs: Sequence[Any]) -> dict[str, list[Any]]:
        """Return values of Flink's `KeyGroupRangeAssignment`, in the order of the inputs.

        `hashes` (hash, max parallelism) → `groups`; `ranges` (max parallelism, parallelism, subtask) → `ranges` (first,
        last); `owners` (max parallelism, parallelism, key group) → `owners`; `defaults` parallelism → `defaults`.
        """
        answer: dict[str, list[Any]] = self.command("key_groups", **dict[str, Any](inputs))
        return answer
