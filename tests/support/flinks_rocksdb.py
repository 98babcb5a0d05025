"""The RocksDB libraries of Flink's jars, as an oracle for databases, each in its own process.

Two libraries in one process would mix up their symbols, and a crash would end the tests.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import platform
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from oracle.distribution import cache_folder, flink_home
from support.needs import skip_in_any_case
from support.rocksdb_writer import Writer

_LIBRARY = "librocksdbjni-linux64.so"
_TESTS = Path(__file__).parents[1]


class RocksdbLibraryError(Exception):
    """Error message of the RocksDB library."""


class FlinksRocksdb:
    """The library of a Flink release, which opens one database at a time, and writes to it in place."""

    def __init__(self, version: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.flinks_rocksdb", str(_library(version))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(_TESTS)},
        )

    @contextmanager
    def opened(self, path: Path, states: Sequence[str], options: str = "") -> Iterator[FlinksRocksdb]:
        self._ask("open", path, list(states), options)
        try:
            yield self
        finally:
            self._ask("close")

    def rows(self, state: str) -> dict[bytes, bytes]:
        answer: dict[bytes, bytes] = self._ask("rows", state)
        return answer

    def values(self, state: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value that a `Get` finds for each key, None without a value."""
        answer: list[bytes | None] = self._ask("values", state, list(keys))
        return answer

    def write(self, steps: Sequence[tuple[Any, ...]]) -> None:
        """Carry out steps; each is the name of a method of `Writer` and its arguments."""
        self._ask("write", list(steps))

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _ask(self, *request: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            pickle.dump(request, self._process.stdin)
            self._process.stdin.flush()
            status, answer = pickle.load(self._process.stdout)
        except EOFError:
            raise AssertionError(f"RocksDB crashed: exit code {self._process.wait()}") from None
        except BaseException:
            self._process.kill()  # a late answer would be mistaken for that of the next request
            raise
        if status == "failed":
            raise RocksdbLibraryError(answer)
        return answer


def _library(version: str) -> Path:
    """Return the library of Flink `version` for this platform, extracted from its jar."""
    if platform.machine() != "x86_64":
        skip_in_any_case("these tests load Flink's RocksDB library for x86-64, and this machine has another processor")
    folder = cache_folder() / "rocksdb" / version
    path = folder / _LIBRARY
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        (jar,) = (jar for jar in flink_home(version) if jar.name.startswith("flink-dist-"))
        part = folder / f"{_LIBRARY}.{os.getpid()}"
        with zipfile.ZipFile(jar) as archive:
            part.write_bytes(archive.read(_LIBRARY))
        part.rename(path)
    return path


def _serve(library: ctypes.CDLL) -> None:
    writer: Any = None
    while True:
        try:
            verb, *arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        status, answer = "done", None
        try:
            if verb == "open":
                writer = Writer(*arguments, library)
            elif verb == "close":
                if writer is not None:
                    writer.close()
                writer = None
            elif verb == "rows":
                answer = writer.rows(*arguments)
            elif verb == "values":
                state, keys = arguments
                answer = [writer.value(state, key) for key in keys]
            else:
                for name, *rest in arguments[0]:
                    getattr(writer, name)(*rest)
        except AssertionError as error:
            status, answer = "failed", str(error)
        pickle.dump((status, answer), sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _serve(ctypes.CDLL(sys.argv[1]))
