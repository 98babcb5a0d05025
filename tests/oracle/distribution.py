"""Flink's jars, and the harness' Java compiled against them.

PyPI's `apache-flink-libraries` holds the jars of a whole Flink. They are fetched once and kept outside the repository,
under `$RESCALE_TEST_CACHE` (default `~/.cache/rescale-tests`); so are the classes, under the hash of their sources.
Flink 1.x and 2.x spell some classes differently: what differs lies in `java/v1` and `java/v2`, as does what one of them
alone has, all else in `java/common`; `java/before_1_19` has what older releases lack. What needs Kafka lies in
`java/kafka`, divided alike; what connectors of older releases lack, in its `since_1_19`. What needs the State Processor
API lies in `java/state_processor`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

LINES = {"1.20": "1.20.5", "2": "2.3.0"}
"""The releases that stand for the two release lines."""

_S3_FILE_SYSTEMS = {"v1": "1.20.1", "v2": "2.3.0"}
"""The newest that Maven has of each line; the older one works with the newer patch release."""

KAFKA_CONNECTORS = {"1.20": "3.4.0-1.20", "2": "4.0.1-2.0"}
"""Kafka connector that each release line is tested with."""

STATE_PROCESSORS = {"1.20": "1.20.0", "2": "2.3.0"}
"""State Processor API that each release line is tested with."""

_KAFKA_BROKER = "3.9.1"

_SOURCES = Path(__file__).parent / "java"
_JAR = re.compile(r"(?:^|/)lib/([^/]+\.jar)$")


def cache() -> Path:
    """The folder for downloads, classes and logs."""
    folder = os.environ.get("RESCALE_TEST_CACHE")
    return Path(folder) if folder else Path.home() / ".cache" / "rescale-tests"


def flink_home(version: str) -> list[Path]:
    """The jars of Flink `version`, fetched if they are not there yet."""
    home = cache() / "flink" / version / "lib"
    if not home.is_dir():
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.parent) as scratch:
            unpacked = Path(scratch) / "lib"
            unpacked.mkdir()
            for name, content in _archived(_download(version, Path(scratch))):
                (unpacked / name).write_bytes(content)
            _settle(unpacked, home)
    return sorted(home.glob("*.jar"))


def s3_file_system(version: str) -> Path:
    """The jar of Flink's S3 file system for the release line of `version`."""
    released = _S3_FILE_SYSTEMS[_line(version)]
    return maven_jar("flink-s3-fs-hadoop", released, "s3")


def maven_jar(artifact: str, version: str, folder: str) -> Path:
    """A jar of Flink's that is kept in a folder of the cache, fetched through Maven if it is not there yet."""
    home = cache() / folder
    jar = home / f"{artifact}-{version}.jar"
    if not jar.is_file():
        wanted = f"org.apache.flink:{artifact}:{version}"
        options = ("-q", "-B", f"-Dartifact={wanted}", f"-DoutputDirectory={home}", "-Dmdep.overWriteReleases=true")
        subprocess.run(["mvn", "dependency:copy", *options], check=True, timeout=900)
    return jar


def state_processor_api(released: str) -> Path:
    """The jar of a release of Flink's State Processor API."""
    return maven_jar("flink-state-processor-api", released, "state-processor")


def kafka_connector(released: str) -> list[Path]:
    """The jars of a release of the Kafka connector, and all that it needs."""
    return _with_dependencies(f"kafka-connector-{released}", f"org.apache.flink:flink-connector-kafka:{released}")


def serializer_jars(version: str) -> list[Path]:
    """The jars with serializers that a job brings along, for Flink `version` from 2.0 on."""
    artifacts = (f"org.apache.flink:{artifact}:{version}" for artifact in ("flink-avro", "flink-table-api-scala_2.12"))
    return _with_dependencies(f"serializers-{version}", *artifacts)


def kafka_broker() -> list[Path]:
    """The jars of a Kafka broker."""
    artifacts = (f"org.apache.kafka:kafka_2.13:{_KAFKA_BROKER}", "org.slf4j:slf4j-simple:1.7.36")
    return _with_dependencies(f"kafka-broker-{_KAFKA_BROKER}", *artifacts)


def _with_dependencies(name: str, *artifacts: str) -> list[Path]:
    """The jars of Maven artifacts, and of all that they need, fetched if they are not there yet."""
    home = cache() / "maven" / name
    if not home.is_dir():
        home.parent.mkdir(parents=True, exist_ok=True)
        parts = (artifact.split(":") for artifact in artifacts)
        dependencies = "".join(
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
            "</dependency>"
            for group, artifact, version in parts
        )
        with tempfile.TemporaryDirectory(dir=home.parent) as scratch:
            pom, jars = Path(scratch) / "pom.xml", Path(scratch) / "jars"
            pom.write_text(
                '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
                f"<groupId>harness</groupId><artifactId>{name}</artifactId><version>1</version>"
                f"<dependencies>{dependencies}</dependencies></project>"
            )
            options = ("-q", "-B", "-f", str(pom), f"-DoutputDirectory={jars}")
            subprocess.run(["mvn", "dependency:copy-dependencies", *options], check=True, timeout=900)
            _settle(jars, home)
    return sorted(home.glob("*.jar"))


def _download(version: str, scratch: Path) -> Path:
    wanted = f"apache-flink-libraries=={version}"
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(scratch), wanted],
        check=True,
        timeout=900,
    )
    (archive,) = (path for path in scratch.iterdir() if path.is_file())
    return archive


def _archived(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of each jar in a wheel or a source distribution."""
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
    """The harness' classes for Flink `version`, compiled if the sources have changed."""
    return _compiled(version, _SOURCES, flink_home(version))


def kafka_classes(version: str, connector: str) -> Path:
    """The scenarios that read from Kafka, compiled against a release of its connector too."""
    needed = [classes(version), *flink_home(version), *kafka_connector(connector)]
    return _compiled(version, _SOURCES / "kafka", needed, "kafka-")


def state_processor_classes(version: str, released: str) -> Path:
    """The scenarios that use the State Processor API, compiled against a release of it too."""
    needed = [classes(version), *flink_home(version), state_processor_api(released)]
    return _compiled(version, _SOURCES / "state_processor", needed, "state-processor-")


def _compiled(version: str, root: Path, needed: Sequence[Path], prefix: str = "") -> Path:
    """The classes of the sources below `root` that are for Flink `version`."""
    old = tuple(map(int, version.split(".")[:2])) < (1, 19)
    folders = ("common", _line(version), "before_1_19" if old else "since_1_19")
    sources = [path for folder in folders for path in sorted((root / folder).rglob("*.java"))]
    digest = hashlib.sha256()
    for path in sources:
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    for path in needed:
        digest.update(path.name.encode() + b"\0")
    home = cache() / "classes" / f"{prefix}{version}-{digest.hexdigest()[:16]}"
    if not home.is_dir():
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.parent) as scratch:
            compiled = Path(scratch) / "classes"
            jars = os.pathsep.join(map(str, needed))
            done = subprocess.run(
                ["javac", "-nowarn", "-d", str(compiled), "-cp", jars, *map(str, sources)],
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
            )
            if done.returncode:
                raise RuntimeError(f"the harness does not compile against Flink {version}:\n{done.stderr}")
            _settle(compiled, home)
    return home


def _line(version: str) -> str:
    """The folder of what is spelled as this release spells it."""
    return "v1" if version.startswith("1.") else "v2"


def _settle(made: Path, home: Path) -> None:
    """Moves a finished folder to its place; whoever comes second keeps what the first one put there."""
    try:
        made.rename(home)
    except OSError:
        if not home.is_dir():
            raise
        shutil.rmtree(made)


def logging_configuration() -> Path:
    return _SOURCES / "log4j2.properties"
