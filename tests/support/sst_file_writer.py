"""New SST files as RocksDB itself writes them (`SstFileWriter`), through the library that reads them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from rescale.rocksdb.engine.library import load_library
from rescale.rocksdb.engine.opened_directory import TABLES

_P, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_MADE = ("options_create", "envoptions_create", "sstfilewriter_create")


@cache
def _library() -> ctypes.CDLL:
    loaded = load_library()
    for name in _MADE:
        getattr(loaded, f"rocksdb_{name}").restype = _P
    return loaded


def sst_file(path: Path, rows: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A file of these rows, which are in the order of their keys; written to `path`."""
    base, options = (_P(_library().rocksdb_options_create()) for _ in range(2))
    _checked("get_options_from_string", base, TABLES.encode(), options)
    environment = _P(_library().rocksdb_envoptions_create())
    writer = _P(_library().rocksdb_sstfilewriter_create(environment, options))
    _checked("sstfilewriter_open", writer, str(path).encode())
    for key, value in rows:
        _checked("sstfilewriter_put", writer, key, _SIZE(len(key)), value, _SIZE(len(value)))
    _checked("sstfilewriter_finish", writer)
    _library().rocksdb_sstfilewriter_destroy(writer)
    _library().rocksdb_envoptions_destroy(environment)
    for made in (base, options):
        _library().rocksdb_options_destroy(made)
    return path.read_bytes()


def _checked(function: str, *arguments: Any) -> None:
    error = ctypes.c_char_p()
    getattr(_library(), f"rocksdb_{function}")(*arguments, ctypes.byref(error))
    assert error.value is None, error.value
