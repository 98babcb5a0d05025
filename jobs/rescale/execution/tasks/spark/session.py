"""The Spark context of a job.

Only RDDs are used, so there is a `SparkContext` but no `SparkSession`: loading the SQL engine would double the time to
start. With a local master, the Python workers do the work and the JVM only passes blocks on, so the time to start
matters more than peak speed. Therefore the JVM uses the C1 compiler and the serial collector, and opens no port to the
outside. It does not use Kryo either: to load Kryo's classes would take a sixth of the time to start.

With any other master, executors do the work; their configured number and size (`spark.executor.instances`,
`spark.executor.cores`) limit how many are requested.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError

from rescale.execution.tasks.allocator import ALLOCATOR_VARIABLES
from rescale.execution.tasks.slices import ATTEMPTS
from rescale.execution.tasks.spark.event_log import keep_event_log
from rescale.execution.tasks.spark.executors import Executors, executors_for
from rescale.execution.tasks.spark.waiting import report_missing_executors
from rescale.execution.tasks.task_directories import make_task_directories
from rescale.options.spark_master import is_on_this_machine, local_master
from rescale.storage.scratch import (
    SHORT_BASE_FOLDER,
    ScratchKind,
    scratch_directories,
    scratch_folder,
    temporary_directory,
)
from rescale.storage.sides import side_variables
from rescale.text.advice import SAME_COMMAND, Advice
from rescale.text.errors import RequestError, StoreError

_LONGEST_SOCKET_DIRECTORY = 107 - len("/.01234567-0123-0123-0123-0123456789ab.sock")
"""Longest name of a directory of Unix domain sockets, in bytes."""

_NEEDED_JAVA = "a JDK 17 or newer"

_STANDALONE_PREFIX = "spark://"
_UNREGISTERED_PREFIX = "spark-application-"
"""Prefix of the default application id, before a master assigns one (`SchedulerBackend.applicationId`)."""
_STOPPED_MESSAGE = "stopped"
"""Part of the error message of a Spark that was stopped while it started."""


@contextmanager
def spark_context(name: str, master: str | None, work_bytes: int | None = None) -> Iterator[SparkContext]:
    """Run Spark inside the block, with executors for `work_bytes`; if None, with as many as the configuration allows.

    If `master` is None, `spark-submit` and its configuration choose the master.
    """
    _check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = (
        SparkConf()
        .setAppName(name)
        .set("spark.python.unix.domain.socket.enabled", "true")
        .set("spark.python.daemon.module", "rescale.execution.tasks.spark.worker_daemon")
        .set("spark.ui.showConsoleProgress", "false")
    )
    for variable, value in {**ALLOCATOR_VARIABLES, **side_variables(os.environ)}.items():
        conf.setExecutorEnv(variable, value)
    with keep_event_log(conf):
        context = _start(conf, master, work_bytes)
        try:
            with nullcontext() if is_on_this_machine(context.master) else report_missing_executors(context):
                yield context
        finally:
            with suppress(Py4JError, ConnectionError):  # an error means that the JVM has already ended
                context.stop()


def _start(conf: SparkConf, master: str | None, work_bytes: int | None) -> SparkContext:
    scratch_paths: list[str] = []
    with as_file(files("rescale.execution.tasks.spark") / "log4j2.properties") as log4j_file:
        if master is not None:
            conf.setMaster(_with_attempts(master))
            if is_on_this_machine(master):
                os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
                conf.set("spark.driver.host", "127.0.0.1")
                conf.set("spark.driver.bindAddress", "127.0.0.1")
                conf.set("spark.ui.enabled", "false")
                scratch_paths = _spark_scratch()
                conf.set(
                    "spark.driver.extraJavaOptions",
                    f"-Dlog4j2.configurationFile={log4j_file.as_uri()} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
                    f'"-Djava.io.tmpdir={scratch_paths[0]}"',
                )
                conf.set("spark.python.unix.domain.socket.dir", _socket_directory(scratch_paths[0]))
        try:
            if not is_on_this_machine(master):
                conf.set("spark.driver.defaultJavaOptions", f"-Dlog4j2.configurationFile={log4j_file.as_uri()}")
                conf = _with_executors(conf, work_bytes)
            with _local_directories(scratch_paths[1:]), _temporary_files_in(scratch_paths[:1]):
                context = SparkContext(conf=conf)
        except (PySparkRuntimeError, Py4JError) as error:
            cause = _root_cause(str(error))
            requested_master = conf.get("spark.master") or ""
            if requested_master.startswith(_STANDALONE_PREFIX) and _STOPPED_MESSAGE in cause:
                raise _no_answer_error(requested_master, cause) from None
            raise StoreError(
                "Spark does not start",
                found=cause,
                advice=f"read the output above; Spark needs {_NEEDED_JAVA}, and on a cluster a reachable API server",
            ) from None
    _check_registered(context)
    context.setLogLevel("ERROR")
    return context


def _check_registered(context: SparkContext) -> None:
    """Raise `StoreError` if no standalone master has answered.

    Even without an answer, Spark returns a context, and stops it a moment later (`StandaloneSchedulerBackend.dead`).
    """
    master = context.master or ""
    if master.startswith(_STANDALONE_PREFIX) and context.applicationId.startswith(_UNREGISTERED_PREFIX):
        with suppress(Py4JError, ConnectionError):
            context.stop()
        raise _no_answer_error(master, "All masters are unresponsive")


def _no_answer_error(master: str, cause: str) -> StoreError:
    return StoreError(
        f"Spark's master {master} does not answer",
        found=cause,
        advice=Advice("check that a master runs there, and that host and port are right; then ", SAME_COMMAND),
    )


@cache
def _spark_scratch() -> list[str]:
    """Make scratch directories of this process: first one for the JVM's temporary files, then those for Spark's files.

    Spark's local files get one in each configured scratch directory. All directories are deleted when this process
    ends, with the files that a killed JVM has left in them.
    """
    cleanup = ExitStack()
    atexit.register(cleanup.close)
    return make_task_directories([temporary_directory(), *scratch_directories()], ScratchKind.SPARK, cleanup)


def _socket_directory(scratch_path: str) -> str:
    """Return a directory of this process whose path is short enough for sockets."""
    return scratch_path if len(os.fsencode(scratch_path)) <= _LONGEST_SOCKET_DIRECTORY else _scratch_with_short_path()


@cache
def _scratch_with_short_path() -> str:
    cleanup = ExitStack()
    atexit.register(cleanup.close)
    return str(cleanup.enter_context(scratch_folder(Path(SHORT_BASE_FOLDER), ScratchKind.SPARK)))


@contextmanager
def _local_directories(directories: list[str]) -> Iterator[None]:
    """Let a JVM that starts in the block have `directories`, if there are any, as SPARK_LOCAL_DIRS."""
    directories_before = os.environ.get("SPARK_LOCAL_DIRS")
    if directories:
        os.environ["SPARK_LOCAL_DIRS"] = ",".join(directories)
    try:
        yield
    finally:
        if directories_before is not None:
            os.environ["SPARK_LOCAL_DIRS"] = directories_before
        else:
            os.environ.pop("SPARK_LOCAL_DIRS", None)


@contextmanager
def _temporary_files_in(roots: list[str]) -> Iterator[None]:
    """Make PySpark create the directory for the JVM's port file (`launch_gateway`) in the first of `roots`.

    By default, a process that is killed while it waits for the JVM would leave the directory in the system's directory
    for temporary files. Without `roots`, a scratch directory is made for it.
    """
    with nullcontext(roots[0]) if roots else scratch_folder(Path(temporary_directory()), ScratchKind.SPARK) as root:
        folder_before, tempfile.tempdir = tempfile.tempdir, str(root)
        try:
            yield
        finally:
            tempfile.tempdir = folder_before


def _root_cause(text: str) -> str:
    """Return the root cause of an exception of the JVM; the whole text if it names none."""
    causes: list[str] = re.findall(r"^\s*Caused by: (.*)$", text, re.MULTILINE)
    return causes[-1] if causes else text


def _check_java() -> None:
    """Raise `RequestError` if there is no Java where Spark looks for it (its script `spark-class`)."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else "java"
    if shutil.which(program) is None:
        raise RequestError(
            f"Spark needs {_NEEDED_JAVA}",
            expected="bin/java in JAVA_HOME, or java on the path where JAVA_HOME is not set",
            found=f"no {program}",
            advice="Debian: apt install openjdk-17-jdk-headless",
        )


def _with_executors(base_conf: SparkConf, work_bytes: int | None) -> SparkConf:
    """Return the full configuration, with as many executors as `work_bytes` need."""
    SparkContext._ensure_initialized(conf=base_conf)  # starts the JVM, which reads spark-defaults.conf for `SparkConf`
    conf = SparkConf().setAll(base_conf.getAll())
    if is_on_this_machine(conf.get("spark.master")):
        return conf
    configured_executors = Executors(
        int(conf.get("spark.executor.instances", "1")), int(conf.get("spark.executor.cores", "1"))
    )
    executors = configured_executors if work_bytes is None else executors_for(work_bytes, configured_executors)
    return (
        conf.set("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .set("spark.executor.instances", str(executors.instances))
        .set("spark.executor.cores", str(executors.cores))
        .set("spark.default.parallelism", str(executors.slots))
        .setIfMissing("spark.executor.memoryOverhead", f"{executors.overhead_mib}m")
    )


def _with_attempts(master: str) -> str:
    """Return a local master that tries a task `ATTEMPTS` times; plain `local[N]` would give up after one try."""
    local_spec = local_master(master)
    return master if local_spec is None or local_spec.attempts else f"local[{local_spec.threads},{ATTEMPTS}]"
