"""RocksDB's shared library, which Spark ships for its state store, and its C interface.

Every installation of Spark has the jar `rocksdbjni`. It holds a library for each platform, which exports RocksDB's C
interface beside its Java interface. So nothing else has to be installed, and no Java runs. Compiled loops call the C
interface and copy rows from an iterator into arrays, which is six times as fast as making Python objects of the rows.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import shutil
import threading
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import google_crc32c

from rescale.storage.files import owned
from rescale.storage.scratch import ScratchKind, scratch_folder, temporary_directory
from rescale.text.errors import StoreError, UnsupportedError

_SUFFIX_BY_PLATFORM = {
    ("Linux", "x86_64"): "linux64.so",
    ("Linux", "aarch64"): "linux-aarch64.so",
    ("Darwin", "arm64"): "osx-arm64.jnilib",
    ("Darwin", "x86_64"): "osx-x86_64.jnilib",
}

_POINTER, _TEXT, _INT, _BYTE, _SIZE = (
    ctypes.c_void_p,
    ctypes.c_char_p,
    ctypes.c_int,
    ctypes.c_ubyte,
    ctypes.c_size_t,
)
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "free": (None, _POINTER),
    "close": (None, _POINTER),
    "options_create": (_POINTER,),
    "options_destroy": (None, _POINTER),
    "get_options_from_string": (None, _POINTER, _TEXT, _POINTER, _POINTER),
    "open_for_read_only_column_families": (
        *(_POINTER, _POINTER, _TEXT, _INT),
        *(_POINTER, _POINTER, _POINTER, _BYTE, _POINTER),
    ),
    "open_column_families": (
        *(_POINTER, _POINTER, _TEXT, _INT),
        *(_POINTER, _POINTER, _POINTER, _POINTER),
    ),
    "column_family_handle_destroy": (None, _POINTER),
    "set_perf_level": (None, _INT),
    "readoptions_create": (_POINTER,),
    "readoptions_destroy": (None, _POINTER),
    "readoptions_set_fill_cache": (None, _POINTER, _BYTE),
    "readoptions_set_readahead_size": (None, _POINTER, _SIZE),
    "readoptions_set_total_order_seek": (None, _POINTER, _BYTE),
    "readoptions_set_iterate_upper_bound": (None, _POINTER, _TEXT, _SIZE),
    "create_iterator_cf": (_POINTER, _POINTER, _POINTER, _POINTER),
    "iter_destroy": (None, _POINTER),
    "iter_seek": (None, _POINTER, _TEXT, _SIZE),
    "iter_get_error": (None, _POINTER, _POINTER),
    "compactoptions_create": (_POINTER,),
    "compactoptions_destroy": (None, _POINTER),
    "compactoptions_set_bottommost_level_compaction": (None, _POINTER, _BYTE),
    "compactoptions_set_exclusive_manual_compaction": (None, _POINTER, _BYTE),
    "compact_range_cf_opt": (None, _POINTER, _POINTER, _POINTER, _TEXT, _SIZE, _TEXT, _SIZE),
    "wait_for_compact_options_create": (_POINTER,),
    "wait_for_compact_options_destroy": (None, _POINTER),
    "wait_for_compact": (None, _POINTER, _POINTER, _POINTER),
}
"""Result type and argument types of the functions of `rocksdb/c.h` that Python calls, by name without `rocksdb_`."""

SYMBOL_BY_LOOP_NAME = {
    **{name: name for name in ("rocksdb_iter_valid", "rocksdb_iter_next")},
    **{name: name for name in ("rocksdb_iter_key", "rocksdb_iter_value")},
    **{name: name for name in ("rocksdb_get_pinned_cf", "rocksdb_pinnableslice_value")},
    "rocksdb_pinnableslice_destroy": "rocksdb_pinnableslice_destroy",
    **{name: name for name in ("LZ4_compress_fast_extState", "LZ4_sizeofState")},
    "rescale_crc32c": "_ZN7rocksdb6crc32c6ExtendEjPKcm",
}
"""Exported symbols of the functions that compiled loops call, by the names that the loops use. The C interface lacks
`rocksdb::crc32c::Extend`, so this function is found by its C++ symbol."""


def _fast_crc32c() -> dict[str, Any]:
    """Return google_crc32c's `crc32c_extend`, by the name that loops use; empty if the function is not compiled.

    This function uses the processor's CRC instructions. The function in Spark's RocksDB for x86 uses tables, and takes
    five times as long.
    """
    if google_crc32c.implementation != "c":
        return {}
    from google_crc32c import _crc32c

    try:
        return {"rescale_crc32c": ctypes.CDLL(_crc32c.__file__)["crc32c_extend"]}
    except (OSError, AttributeError):
        return {}


class Library:
    """The functions of `rocksdb/c.h`; `call_checked` raises the errors that they report."""

    def __init__(self, shared_library: ctypes.CDLL) -> None:
        self._functions = {}
        for name, (result, *arguments) in _SIGNATURES.items():
            function = shared_library[f"rocksdb_{name}"]
            function.restype, function.argtypes = result, arguments
            self._functions[name] = function

    def call(self, name: str, *arguments: Any) -> Any:
        return self._functions[name](*arguments)

    def call_checked(self, name: str, *arguments: Any) -> Any:
        """Call a function whose last argument receives an error; raise `RocksdbError` if there is one."""
        error = ctypes.c_char_p()
        result = self._functions[name](*arguments, ctypes.byref(error))
        self.raise_error(error)
        return result

    def raise_error(self, error: ctypes.c_char_p) -> None:
        """Raise and free an error that a function returned; do nothing for a null pointer."""
        if error.value is not None:
            text = error.value.decode(errors="replace")
            self.call("free", error)
            raise RocksdbError(text)


class RocksdbError(Exception):
    """An error of RocksDB, with the text of `Status::ToString`. This error never leaves the package."""


LOADING_LOCK = threading.RLock()
"""Lock held while the library is loaded, and while a child is forked.

A child that is forked while another thread loads the library would inherit the locks of the dynamic loader and of LLVM
in a locked state, and wait forever.
"""


def library() -> Library:
    """Return the library, which a process loads once. Raises the errors of `load_library`."""
    with LOADING_LOCK:
        return _library()


@cache
def _library() -> Library:
    from llvmlite import binding  # comes with numba, which only tasks have

    loaded_library = load_library()
    try:
        functions = {
            name: loaded_library[exported_name] for name, exported_name in SYMBOL_BY_LOOP_NAME.items()
        } | _fast_crc32c()
        for name, function in functions.items():
            binding.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
        return Library(loaded_library)
    except AttributeError as error:
        raise UnsupportedError(
            f"Spark's RocksDB lacks a function: {error}", advice="use PySpark 4.1 or later"
        ) from None


def load_library() -> ctypes.CDLL:
    """Load Spark's RocksDB.

    Raises `UnsupportedError` if it is missing or cannot be loaded, and `StoreError` for errors of the file system.
    """
    suffix = _SUFFIX_BY_PLATFORM.get((platform.system(), platform.machine()))
    jar = next(_jars(), None)
    if suffix is None or jar is None:
        raise UnsupportedError(
            "there is no RocksDB library to read databases with",
            expected="rocksdbjni-<version>.jar among the jars of Spark, on Linux or macOS",
            found=f"{jar} on {platform.system()} {platform.machine()}",
            advice="run where PySpark is installed with its jars",
        )
    try:
        # A loaded library does not need its file any more.
        with (
            scratch_folder(Path(temporary_directory()), ScratchKind.LIBRARY) as folder,
            zipfile.ZipFile(jar) as archive,
        ):
            library_path = folder / f"librocksdbjni-{suffix}"
            with archive.open(library_path.name) as packed_file, os.fdopen(owned.new_file(library_path), "wb") as file:
                shutil.copyfileobj(packed_file, file)
            return _loaded(str(library_path), jar)
    except (KeyError, zipfile.BadZipFile) as error:
        raise UnsupportedError(
            f"Spark's RocksDB is missing: {error}", path=str(jar), advice="install PySpark again"
        ) from None
    except OSError as error:
        raise StoreError(f"the file system says: {error.strerror}", path=error.filename or str(jar)) from None


def _loaded(path: str, jar: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise UnsupportedError(
            f"Spark's RocksDB cannot be loaded: {error}",
            path=str(jar),
            advice="use an image with glibc and libstdc++, and a TMPDIR that programs may be loaded from",
        ) from None


def _jars() -> Iterator[Path]:
    """Yield the jars with RocksDB: that of the Spark in `SPARK_HOME`, if set, and that of PySpark."""
    spec = importlib.util.find_spec("pyspark")
    homes = [Path(home) for home in (os.environ.get("SPARK_HOME"),) if home]
    homes += [Path(folder) for folder in (spec.submodule_search_locations or () if spec else ())]
    for home in homes:
        yield from (home / "jars").glob("rocksdbjni-*.jar")
