"""Let RocksDB open a directory, with options in text form, and get a handle for each column family."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from rescale.rocksdb.engine.library import RocksdbError, library

TABLE_OPTIONS = "compression=kLZ4Compression;block_based_table_factory={format_version=5;checksum=kCRC32c}"
"""Options for new SST files that Flink 1 and Flink 2 can read."""


def options_of(text: str, stack: ExitStack) -> int:
    """Return the address of a `rocksdb_options_t`, valid until `stack` closes. Raises `RocksdbError` for bad `text`."""
    rocksdb = library()
    defaults, options = (int(rocksdb.call("options_create")) for _ in range(2))
    stack.callback(rocksdb.call, "options_destroy", defaults)
    stack.callback(rocksdb.call, "options_destroy", options)
    rocksdb.call_checked("get_options_from_string", defaults, text.encode(), options)
    return options


def open_directory(
    path: Path, states: Sequence[str], options: str, stack: ExitStack, *, is_read_only: bool
) -> tuple[int, dict[str, int]]:
    """Return the addresses of a `rocksdb_t` and, by name, of its column families, valid until `stack` closes.

    All column families get the same options. Raises `RocksdbError` if the directory cannot be opened, or if a state
    name has a zero character: the C interface would cut the name there, and open another state.
    """
    if states_with_nul := [state for state in states if "\0" in state]:
        raise RocksdbError(f"a state name has a zero character: {states_with_nul[0]!r}")
    rocksdb = library()
    handles = (ctypes.c_void_p * len(states))()
    options_address = options_of(options, stack)
    address = rocksdb.call_checked(
        "open_for_read_only_column_families" if is_read_only else "open_column_families",
        options_address,
        os.fsencode(path),
        len(states),
        (ctypes.c_char_p * len(states))(*(state.encode() for state in states)),
        (ctypes.c_void_p * len(states))(*[options_address] * len(states)),
        handles,
        *((0,) if is_read_only else ()),
    )
    stack.callback(rocksdb.call, "close", address)
    for handle in handles:
        stack.callback(rocksdb.call, "column_family_handle_destroy", handle)
    return address, {state: int(handle or 0) for state, handle in zip(states, handles, strict=True)}
