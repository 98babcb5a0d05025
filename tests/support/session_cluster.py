"""Session cluster of a real Flink: a JobManager with its REST API, and a TaskManager, two JVMs on this machine.

With an S3 server, both have Flink's S3 file system as a plugin, and access to the server.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self
from uuid import uuid4

import httpx

from oracle.distribution import flink_home, kafka_connector_jars, logging_configuration, s3_file_system_jar
from oracle.harness import jvm_options
from rescale.demo.processes import free_ports
from rescale.flink.start import Start
from rescale.flink_rest.client import Flink, PackagedProgram
from rescale.flink_rest.running_job import Job
from support.needs import need
from support.s3 import S3Server

_JOBS = ("Counts", "Alarms", "Bulk", "Chains")
_FLINK_2_JOBS = ("AsyncCounts",)
"""Jobs with classes that Flink 1.x lacks."""

_JOBS_OF_KAFKA = ("Exactly",)

_SLOTS = 16
_PATIENCE_SECONDS = 300
"""Time limit for actions of Flink on a busy machine, including its start."""

_HTTP = httpx.Client(timeout=120)

_CONFIGURATION = {
    "jobmanager.rpc.address": "127.0.0.1",
    "jobmanager.bind-host": "127.0.0.1",
    "jobmanager.memory.process.size": "700m",
    "rest.address": "127.0.0.1",
    "rest.bind-address": "127.0.0.1",
    "taskmanager.host": "127.0.0.1",
    "taskmanager.bind-host": "127.0.0.1",
    "taskmanager.numberOfTaskSlots": str(_SLOTS),
    # Flink's start scripts would set these options.
    "taskmanager.cpu.cores": "2",
    "taskmanager.memory.task.heap.size": "256mb",
    "taskmanager.memory.task.off-heap.size": "0",
    "taskmanager.memory.framework.heap.size": "128mb",
    "taskmanager.memory.framework.off-heap.size": "64mb",
    "taskmanager.memory.jvm-metaspace.size": "256mb",
    "taskmanager.memory.jvm-overhead.min": "128mb",
    "taskmanager.memory.jvm-overhead.max": "128mb",
    "taskmanager.memory.network.min": "96mb",
    "taskmanager.memory.network.max": "96mb",
    "taskmanager.memory.managed.size": "32mb",
    "taskmanager.memory.segment-size": "4kb",
    "heartbeat.timeout": "600000",
    "metrics.fetcher.update-interval": "1000",
}


class _Jvm:
    """A JVM of a cluster, which runs during the block, and can be replaced."""

    def __init__(self, libraries: Sequence[Path], main: str, folder: Path, memory: str) -> None:
        jars = os.pathsep.join(map(str, libraries))
        self._command = ["java", f"-Xmx{memory}", *jvm_options()]
        self._command += [f"-Dlog4j.configurationFile={logging_configuration()}", "-cp", jars, main]
        self._command += ["--configDir", str(folder)]
        self._environment = {**os.environ, "FLINK_PLUGINS_DIR": str(folder / "plugins")}
        self._log = folder / f"{main.rpartition('.')[2]}.log"

    def __enter__(self) -> Self:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, env=self._environment, stdout=log, stderr=log)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def replace(self) -> None:
        """Kill the JVM, as if its machine were lost, and start another one."""
        with self.replaced():
            pass

    @contextmanager
    def replaced(self) -> Iterator[None]:
        """Kill the JVM, as if its machine were lost, and start another one after the block."""
        self.__exit__()
        yield
        self.__enter__()


@dataclass(frozen=True)
class SessionCluster:
    """A running session cluster with the jobs `Counts`, `Alarms`, `Bulk`, `Chains` and, for Flink 2, `AsyncCounts`.

    `jar` is the id of their uploaded jar. `folder` is for savepoints.
    """

    address: str
    jar: str
    folder: Path
    job_manager: _Jvm
    task_manager: _Jvm

    def lose_job_manager(self) -> None:
        """Replace the JobManager. Without high availability, the new one knows no job; the jar stays uploaded."""
        self.job_manager.replace()
        wait_until(lambda: _slots(self.address) == _SLOTS, "Flink's slots")

    def lose_task_manager(self) -> None:
        """Replace the TaskManager; its jobs fail, and restart if their configuration allows it."""
        self.task_manager.replace()

    def lose_both(self) -> None:
        """Replace both machines. The new ones know no job, so a job can be started under the id of an earlier one."""
        with self.task_manager.replaced():
            self.job_manager.replace()
        wait_until(lambda: _slots(self.address) == _SLOTS, "Flink's slots")

    def open(self) -> Flink:
        return Flink(self.address)

    def run(
        self,
        parallelism: int,
        *arguments: str,
        main: str = "Counts",
        options: Mapping[str, str] | None = None,
        job_id: str | None = None,
        snapshot: str = "",
    ) -> str:
        """Start a job, from a snapshot if given, and wait until all its tasks run; return its id."""
        job_id = job_id or uuid4().hex
        with self.open() as flink:
            program = PackagedProgram(self.jar, main, arguments, options or {})
            flink.run_jar(program, job_id, Start(snapshot, parallelism, None))
        wait_until(lambda: self.job(job_id).runs, "the job to run")
        return job_id

    def job(self, job_id: str) -> Job:
        with self.open() as flink:
            job = flink.job(job_id)
        assert job is not None
        return job

    def alive(self, name: str | None = None) -> set[str]:
        """Return the ids of running jobs (with this name)."""
        with self.open() as flink:
            return {line.job_id for line in flink.jobs() if not line.has_ended and name in (None, line.name)}

    def is_counting(self, job_id: str) -> bool:
        """Return whether a job `Counts` has read records since its start, and runs: a wrong count makes it fail."""
        return self.records_read(job_id) > 0 and self.job(job_id).runs

    def records_read(self, job_id: str, name: str = "") -> int:
        """Return the number of records that vertices with `name` in their names have received since the job's start."""
        vertices = _HTTP.get(f"{self.address}/jobs/{job_id}").json()["vertices"]
        return sum(vertex["metrics"]["read-records"] for vertex in vertices if name in vertex["name"])

    def fired_timers(self, job_id: str) -> int:
        """Return the number of timers of a job `Alarms` that have fired since its start."""
        return self.records_read(job_id, "heard")

    def form(self, job_id: str, target: str, options: Mapping[str, str]) -> dict[str, Any]:
        """Return a form that stops a job `Counts` at a checkpoint, and starts it with 3 subtasks and 256 key groups."""
        return {
            "flink": self.address,
            "job": job_id,
            "target": target,
            "parallelism": 3,
            "max_parallelism": 256,
            "taking": "checkpoint",
            "hand_over": "jar",
            "jar": "counts.jar",
            "entry_class": "Counts",
            "flink_options": dict(options),
        }

    def clear(self) -> None:
        """End all jobs."""
        with self.open() as flink:
            for job_id in self.alive():
                flink.cancel(job_id)
        wait_until(lambda: not self.alive(), "the jobs to end")


@contextmanager
def session_cluster(
    version: str, s3: S3Server | None = None, memory: str = "400m", connector: str | None = None, **options: str
) -> Iterator[SessionCluster]:
    """Run a cluster of a release during the block; each JVM has a heap of `memory`.

    `connector` is the release of a Kafka connector, which the job `Exactly` needs. `options` are further Flink options.
    """
    need("javac", "jobs are compiled for real Flink")
    with TemporaryDirectory(prefix=f"flink-{version}-") as scratch:
        folder = Path(scratch)
        rest, rpc = islice(free_ports(), 2)
        ports = {"jobmanager.rpc.port": str(rpc), "rest.port": str(rest)}
        options = {**_CONFIGURATION, **ports, "io.tmp.dirs": scratch, **options}
        if s3 is not None:
            options |= s3.flink_options
            plugin = folder / "plugins" / "s3"
            plugin.mkdir(parents=True)
            (plugin / "s3.jar").symlink_to(s3_file_system_jar(version))
        options["web.upload.dir"] = str(folder / "uploads")
        (folder / "config.yaml").write_text("".join(f"{name}: {value}\n" for name, value in options.items()))
        entrypoint = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
        runner = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
        libraries = [*flink_home(version), *(kafka_connector_jars(connector) if connector is not None else [])]
        names = _JOBS if version.startswith("1.") else _JOBS + _FLINK_2_JOBS
        names += _JOBS_OF_KAFKA if connector is not None else ()
        manager, worker = (_Jvm(libraries, main, folder, memory) for main in (entrypoint, runner))
        with manager, worker:
            jar = _jar(libraries, names, folder)
            address = f"http://127.0.0.1:{rest}"
            wait_until(lambda: _slots(address) == _SLOTS, "Flink's slots")
            yield SessionCluster(address, _upload(address, jar), folder, manager, worker)


def wait_until(holds: Callable[[], bool], what: str, seconds: float = _PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.2)


def _slots(address: str) -> int:
    try:
        return int(_HTTP.get(f"{address}/overview").json()["slots-total"])
    except (httpx.TransportError, ValueError, KeyError):
        return 0


def _jar(flink: Sequence[Path], names: Sequence[str], folder: Path) -> Path:
    """Return the jar of the jobs, compiled against a release."""
    classes, jar = folder / "classes", folder / "counts.jar"
    libraries = os.pathsep.join(map(str, flink))
    sources = [str(Path(__file__).parent / f"{name}.java") for name in names]
    subprocess.run(["javac", "-nowarn", "-d", str(classes), "-cp", libraries, *sources], check=True)
    subprocess.run(["jar", "-c", "-f", str(jar), "-C", str(classes), "."], check=True)
    return jar


def _upload(address: str, jar: Path) -> str:
    with jar.open("rb") as file:
        answer = _HTTP.post(f"{address}/jars/upload", files={"jarfile": (jar.name, file, "application/x-java-archive")})
    assert answer.is_success, answer.text
    return str(answer.json()["filename"]).rpartition("/")[2]


KEYS = 100
"""Keys of the job `Alarms`."""

ROCKSDB = {
    "state.backend.type": "rocksdb",
    "state.backend.incremental": "true",
    "state.backend.rocksdb.memory.managed": "false",
}
SMALL_FILES = {
    "state.backend.rocksdb.compaction.level.max-size-level-base": "1mb",
    "state.backend.rocksdb.compaction.level.target-file-size-base": "256kb",
}
"""Options that let a compaction rewrite only a few of many files."""
HEAP_TIMERS = {**ROCKSDB, "state.backend.rocksdb.timer-service.factory": "HEAP"}
CHECKPOINTS = {"execution.checkpointing.interval": "1s"}
RETAINING = {"execution.checkpointing.num-retained": "100"}
"""Option for jobs with a checkpoint each second, which tests read for longer."""
ONE_CHECKPOINT = {"execution.checkpointing.interval": "1d"}
"""Options for a job that makes checkpoints on request (`take_checkpoint`). Flink keeps only the newest checkpoint, so a
periodic checkpoint would delete the one that a test reads. The first periodic checkpoint may come at any time within
the interval."""


def native_options(cluster: SessionCluster, backend: Mapping[str, str]) -> dict[str, str]:
    """Options of Flink for a job with checkpoints below the cluster's folder."""
    return {**backend, **CHECKPOINTS, "state.checkpoints.dir": (cluster.folder / "checkpoints").as_uri()}


def take_checkpoint(cluster: SessionCluster, job_id: str) -> None:
    """Let a job make a checkpoint, and wait until Flink reports it."""
    with cluster.open() as flink:
        flink.trigger_checkpoint(job_id, uuid4().hex)
    wait_until(lambda: has_checkpoint(cluster, job_id), "a checkpoint")


def has_checkpoint(cluster: SessionCluster, job_id: str) -> bool:
    """Return whether Flink reports a completed checkpoint."""
    with cluster.open() as flink:
        return flink.latest_checkpoint_uri(job_id) is not None
