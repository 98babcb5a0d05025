"""Search for Spark's RocksDB library, and the error if it is absent."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import google_crc32c
import pytest

from rescale.rocksdb.engine import library
from rescale.text.errors import UnsupportedError


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The jar of the Spark that SPARK_HOME names: it comes before that of PySpark."""
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    jar = tmp_path / "jars" / "rocksdbjni-9.9.9.jar"
    jar.parent.mkdir()
    return jar


def test_library_comes_from_pyspark_if_spark_home_has_no_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert library.load_library() is not None


def test_missing_spark_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(library.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UnsupportedError, match="there is no RocksDB library"):
        library.load_library()


def test_unsupported_machine_is_refused(jar: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar.touch()
    monkeypatch.setattr(platform, "machine", lambda: "vax")
    with pytest.raises(UnsupportedError, match="there is no RocksDB library") as caught:
        library.load_library()
    assert "Linux vax" in (caught.value.found or "")


@pytest.mark.parametrize("members", [None, {}, {"librocksdbjni-linux64.so": b"no library"}])
def test_damaged_jar_is_refused(jar: Path, members: dict[str, bytes] | None) -> None:
    jar.touch()
    if members is not None:
        with zipfile.ZipFile(jar, "w") as archive:
            for name, data in members.items():
                archive.writestr(name, data)
    with pytest.raises(UnsupportedError, match="is missing" if not members else "cannot be loaded") as caught:
        library.load_library()
    assert caught.value.path == str(jar)


def test_fast_checksums_of_blocks_equal_plain_ones_and_need_compiled_crc32c(monkeypatch: pytest.MonkeyPatch) -> None:
    """If google_crc32c is not compiled, RocksDB's own function takes its place, with the same results."""
    (fast,) = library._fast_crc32c().values()
    plain = library.load_library()[library.SYMBOL_BY_LOOP_NAME["rescale_crc32c"]]
    for function in (fast, plain):
        function.restype, function.argtypes = ctypes.c_uint32, [ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t]
    data = bytes(range(1, 256)) * 20
    for length in (0, 1, 7, 255, len(data)):
        assert fast(0, data, length) == plain(0, data, length) == google_crc32c.value(data[:length])
        assert fast(7, data, length) == plain(7, data, length)
    monkeypatch.setattr(google_crc32c, "implementation", "python")
    assert library._fast_crc32c() == {}


LOADING_PROGRAM = """
import threading, time
from rescale.rocksdb.engine import child, library

events, load = [], library.load_library

def slow_load():
    events.append("load")
    loading.set()
    time.sleep(0.5)
    loaded = load()
    events.append("loaded")
    return loaded

def fork():
    loading.wait()
    forked = child.Child()
    events.append("forked")
    forked.close()

loading, library.load_library = threading.Event(), slow_load
threads = [threading.Thread(target=target) for target in (library.library, library.library, fork, fork)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*events)
"""


def test_library_is_loaded_once_and_forks_wait_for_the_load() -> None:
    """A child forked during the load would inherit locks that the dynamic loader holds."""
    process = subprocess.run([sys.executable, "-c", LOADING_PROGRAM], capture_output=True, text=True, check=True)
    assert process.stdout.split() == ["load", "loaded", "forked", "forked"]
