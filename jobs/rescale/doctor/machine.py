"""Checks of this machine: the packages that move state, scratch space, and Java, which only Spark needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rescale.doctor.checks import CheckList, PendingCheck
from rescale.storage.files import owned
from rescale.storage.scratch import ScratchKind, scratch_directories, scratch_folder
from rescale.text.units import human_bytes

OLDEST_JAVA_RELEASE = 17
"""Oldest release of Java that Spark 4 runs on."""

SPARK_PACKAGES = ("cloudpickle", "numba", "pyspark")
"""Packages of the extra `spark`."""

MIN_SCRATCH_BYTES = 10_000_000_000
"""Free bytes of scratch space below which a check warns if the size of the state is unknown."""

_JAVA_TIMEOUT_SECONDS = 30
_JAVA_RELEASE = re.compile(r'version "(?:1\.)?(\d+)([^"]*)"')
"""Release in the output of `java -version`: "17.0.11", and "1.8.0_402" for Java 8."""

_MEANING_WITHOUT_JAVA = "a Spark cluster cannot be used from here; runs on this machine need no Java"
_JAVA_ADVICE = "install a JDK 17 or newer (Debian: apt install openjdk-17-jdk-headless), or set JAVA_HOME to one"


def check_java(checks: CheckList) -> None:
    """Check the Java that Spark would use. An unsuitable one is only a warning: runs without a cluster need no Java."""
    java_home = os.environ.get("JAVA_HOME")
    program = str(Path(java_home, "bin", "java")) if java_home else "java"
    tried = f"{program} -version" + (" (of JAVA_HOME)" if java_home else "")
    with checks.trying("Java", tried, _MEANING_WITHOUT_JAVA) as check:
        if shutil.which(program) is None:
            check.warn("there is no such program", _MEANING_WITHOUT_JAVA, _JAVA_ADVICE)
            return
        try:
            answer = subprocess.run(
                [program, "-version"], capture_output=True, text=True, errors="replace", timeout=_JAVA_TIMEOUT_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            check.warn(str(error), _MEANING_WITHOUT_JAVA, _JAVA_ADVICE)
            return
        output = f"{answer.stderr}{answer.stdout}".strip()
        release = _JAVA_RELEASE.search(output)
        if release is None:
            check.warn(
                f"exit code {answer.returncode}: {output[:200] or 'no output'}", _MEANING_WITHOUT_JAVA, _JAVA_ADVICE
            )
        elif int(release[1]) < OLDEST_JAVA_RELEASE:
            check.warn(f"Java {release[1]}", f"Spark needs Java {OLDEST_JAVA_RELEASE} or newer", _JAVA_ADVICE)
        else:
            check.ok(f"Java {release[1]}{release[2]}", "Spark runs on it if its master is a cluster")


def check_spark_packages(checks: CheckList) -> None:
    """Import the packages that move and compare state."""
    meaning = "run, follow, validate and diff need it; the other commands do not"
    for name in SPARK_PACKAGES:
        check = PendingCheck(checks, name, f"import {name}")
        try:
            import_module(name)
            release = version(name)
        except (ImportError, PackageNotFoundError, OSError) as error:
            advice = 'pip install "flink-rescale[spark]"; in a checkout: uv sync --all-extras'
            check.fail(f"{type(error).__name__}: {error}", meaning, advice)
        else:
            check.ok(release, "steps that move or compare state can start")


def check_scratch(checks: CheckList, state_bytes: int | None) -> None:
    """Write into each scratch directory, and compare its free bytes with the size of the state, if it is known."""
    subject = "scratch space"
    meaning = "records that get new key groups, and RocksDB's files, pass through it"
    advice = "set SPARK_LOCAL_DIRS to a directory with enough space, to which this user may write"
    with checks.trying(subject, "SPARK_LOCAL_DIRS, else the system's directory for temporary files", meaning):
        for directory in scratch_directories():
            check, path = PendingCheck(checks, subject, f"write a file below {directory}"), Path(directory)
            missing_folders = [folder for folder in (path, *path.parents) if not folder.exists()]
            try:
                with scratch_folder(path, ScratchKind.RESULT) as folder:
                    owned.write_new(folder / "probe", b"probe")
                    free_bytes = shutil.disk_usage(folder).free
            except OSError as error:
                check.fail(f"{error.strerror}: {error.filename or directory}", meaning, advice)
                continue
            finally:
                for folder in missing_folders:
                    owned.remove_folder(folder)
            needed_bytes = MIN_SCRATCH_BYTES if state_bytes is None else state_bytes
            needed_text = human_bytes(needed_bytes)
            if free_bytes < needed_bytes:
                size_warning = f"it may be too small: a change of the max parallelism writes up to {needed_text} here"
                if state_bytes is None:
                    size_warning = f"less than {needed_text}: enough for small state only"
                check.warn(f"{human_bytes(free_bytes)} free", size_warning, f"make room there, or {advice}")
            else:
                check.ok(f"{human_bytes(free_bytes)} free", meaning)
