"""SST files that RocksDB writes, and such files with a wrong index."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from rescale.rocksdb.engine.library import load_library
from rescale.rocksdb.engine.opened_directory import TABLE_OPTIONS
from rescale.rocksdb.manifest.edit_writer import varint
from rescale.rocksdb.sst.footer import FOOTER_SIZE, read_footer
from rescale.rocksdb.sst.table_blocks import CHECKSUM_FUNCTIONS, TRAILER_SIZE, BlockHandle

_P, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_MADE = ("options_create", "envoptions_create", "sstfilewriter_create")


@cache
def _library() -> ctypes.CDLL:
    loaded = load_library()
    for name in _MADE:
        getattr(loaded, f"rocksdb_{name}").restype = _P
    return loaded


def sst_file(path: Path, rows: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Write a file of these rows, in the order of their keys, to `path`."""
    base, options = (_P(_library().rocksdb_options_create()) for _ in range(2))
    _checked("get_options_from_string", base, TABLE_OPTIONS.encode(), options)
    environment = _P(_library().rocksdb_envoptions_create())
    writer = _P(_library().rocksdb_sstfilewriter_create(environment, options))
    _checked("sstfilewriter_open", writer, str(path).encode())
    for key, value in rows:
        _checked("sstfilewriter_put", writer, key, _SIZE(len(key)), value, _SIZE(len(value)))
    _checked("sstfilewriter_finish", writer)
    _library().rocksdb_sstfilewriter_destroy(writer)
    _library().rocksdb_envoptions_destroy(environment)
    for created_options in (base, options):
        _library().rocksdb_options_destroy(created_options)
    return path.read_bytes()


def _checked(function: str, *arguments: Any) -> None:
    error = ctypes.c_char_p()
    getattr(_library(), f"rocksdb_{function}")(*arguments, ctypes.byref(error))
    assert error.value is None, error.value


def with_index(data: bytes, block: BlockHandle) -> bytes:
    """Return an SST file of the same size as `data`, whose index names only this block."""
    footer = read_footer(data[-FOOTER_SIZE:], len(data), "", 0)
    at, room = footer.index_handle
    key = b"\x7f\xff"
    entry = varint(0) + varint(len(key)) + key + varint(block.offset) + varint(block.size)
    index = entry + (0).to_bytes(4, "little") + (1).to_bytes(4, "little")
    assert len(index) <= room
    stored = index + b"\0"
    stored += CHECKSUM_FUNCTIONS[footer.checksum_type](stored).to_bytes(4, "little")
    whole = data[:at] + stored.ljust(room + TRAILER_SIZE, b"\0") + data[at + room + TRAILER_SIZE :]
    handles = b"".join(varint(number) for number in (*footer.metaindex_handle, at, len(index)))
    return whole[: -FOOTER_SIZE + 1] + handles.ljust(40, b"\0") + data[-12:]
