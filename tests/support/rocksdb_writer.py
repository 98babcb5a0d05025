"""Writer of databases, by the C interface of our RocksDB library or of another release.

A model beside the database has its expected rows. Rows are written without a write-ahead log, and databases are read
from checkpoints, as in Flink.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from rescale.rocksdb.engine.library import load_library
from rescale.rocksdb.stored_files import StoredFile

OPTIONS = (
    "create_if_missing=1;create_missing_column_families=1;disable_auto_compactions=1;stats_dump_period_sec=0;"
    "level_compaction_dynamic_level_bytes=0;"
)
MERGE = "merge_operator={id=StringAppendTESTOperator;delimiter=,}"

_POINTERS = (
    *("options_create", "writeoptions_create", "flushoptions_create", "readoptions_create", "open_column_families"),
    *("checkpoint_object_create", "mergeoperator_create", "create_iterator_cf", "iter_key", "iter_value"),
    *("get_cf", "compactionfilter_create"),
)
_SIZED = (ctypes.c_char_p, ctypes.c_size_t)
_P, _SIZE, _Flag = ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_ubyte)


class Writer:
    """An open database and its model: value by state and key.

    Compactions apply `change` to each value, as Flink's TTL filter drops expired elements of lists.
    """

    def __init__(
        self,
        path: Path,
        states: Sequence[str],
        options: str,
        library: ctypes.CDLL | None = None,
        change: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self._library = library or _own_library()
        for name in _POINTERS:
            getattr(self._library, f"rocksdb_{name}").restype = _P
        self.model: dict[str, dict[bytes, bytes]] = {state: {} for state in states}
        self._options = made, chosen = _P(self._call("options_create")), _P(self._call("options_create"))
        self._checked("get_options_from_string", made, (OPTIONS + options).encode(), chosen)
        if library is not None:
            self._call("options_set_merge_operator", chosen, _P(self._call("mergeoperator_create", *_merge_operator())))
        if change is not None:
            self._filter = _compaction_filter(change)
            self._call(
                "options_set_compaction_filter", chosen, _P(self._call("compactionfilter_create", *self._filter))
            )
        names = ["default", *states]
        handles = (_P * len(names))()
        encoded = (ctypes.c_char_p * len(names))(*(name.encode() for name in names))
        families = (_P * len(names))(*[chosen.value] * len(names))
        opened = self._checked(
            "open_column_families", chosen, str(path).encode(), len(names), encoded, families, handles
        )
        self._database = _P(opened)
        self._families = {name: _P(handle) for name, handle in zip(names, handles, strict=True)}
        self._write_options, self._flush_options = (_P(self._call(f"{of}options_create")) for of in ("write", "flush"))
        self._call("writeoptions_disable_WAL", self._write_options, 1)

    def put(self, state: str, key: bytes, value: bytes) -> None:
        self._write("put_cf", state, *_sized(key), *_sized(value))
        self.model[state][key] = value

    def add(self, state: str, key: bytes, element: bytes) -> None:
        """Add an element to a list as Flink's `RocksDBListState.add` does."""
        self._write("merge_cf", state, *_sized(key), *_sized(element))
        before = self.model[state].get(key)
        self.model[state][key] = element if before is None else before + b"," + element

    def delete(self, state: str, key: bytes) -> None:
        self._write("delete_cf", state, *_sized(key))
        self.model[state].pop(key, None)

    def delete_range(self, state: str, begin: bytes, end: bytes) -> None:
        """Delete a range of keys as Flink does to clip a database."""
        self._write("delete_range_cf", state, *_sized(begin), *_sized(end))
        for key in [key for key in self.model[state] if begin <= key < end]:
            del self.model[state][key]

    def ingest(self, state: str, file: Path) -> None:
        """Ingest an SST file, whose rows the model does not contain."""
        self._library.rocksdb_ingestexternalfileoptions_create.restype = _P
        options = _P(self._call("ingestexternalfileoptions_create"))
        files = (ctypes.c_char_p * 1)(str(file).encode())
        family = self._families[state]
        self._checked("ingest_external_file_cf", self._database, family, files, ctypes.c_size_t(1), options)
        self._call("ingestexternalfileoptions_destroy", options)

    def flush(self) -> None:
        for family in self._families.values():
            self._checked("flush_cf", self._database, self._flush_options, family)

    def compact(self, state: str) -> None:
        nothing = _sized(b"")
        none = (ctypes.c_char_p(None), nothing[1])
        self._call("compact_range_cf", self._database, self._families[state], *none, *none)

    def rows(self, state: str) -> dict[bytes, bytes]:
        """Return the rows of a state, by the database's iterator."""
        options = _P(self._call("readoptions_create"))
        iterator = _P(self._call("create_iterator_cf", self._database, options, self._families[state]))
        self._call("iter_seek_to_first", iterator)
        rows = {}
        size = ctypes.c_size_t()
        while self._call("iter_valid", iterator) & 1:
            key = ctypes.string_at(self._call("iter_key", iterator, ctypes.byref(size)), size.value)
            rows[key] = ctypes.string_at(self._call("iter_value", iterator, ctypes.byref(size)), size.value)
            self._call("iter_next", iterator)
        self._checked("iter_get_error", iterator)
        self._call("iter_destroy", iterator)
        self._call("readoptions_destroy", options)
        return rows

    def value(self, state: str, key: bytes) -> bytes | None:
        """Return the value of one key by a point lookup, which only reads files that may have the key."""
        options = _P(self._call("readoptions_create"))
        size = ctypes.c_size_t()
        stored = self._checked(
            "get_cf", self._database, options, self._families[state], *_sized(key), ctypes.byref(size)
        )
        self._call("readoptions_destroy", options)
        if stored is None:
            return None
        value = ctypes.string_at(stored, size.value)
        self._call("free", _P(stored))
        return value

    def checkpoint(self, path: Path) -> list[StoredFile]:
        made = _P(self._checked("checkpoint_object_create", self._database))
        self._checked("checkpoint_create", made, str(path).encode(), ctypes.c_uint64(0))
        self._call("checkpoint_object_destroy", made)
        return listed(path)

    def close(self) -> None:
        for family in self._families.values():
            self._call("column_family_handle_destroy", family)
        self._call("close", self._database)
        self._call("writeoptions_destroy", self._write_options)
        self._call("flushoptions_destroy", self._flush_options)
        for options in self._options:
            self._call("options_destroy", options)

    def _write(self, function: str, state: str, *arguments: Any) -> None:
        self._checked(function, self._database, self._write_options, self._families[state], *arguments)

    def _call(self, function: str, *arguments: Any) -> Any:
        return getattr(self._library, f"rocksdb_{function}")(*arguments)

    def _checked(self, function: str, *arguments: Any) -> Any:
        error = ctypes.c_char_p()
        result = self._call(function, *arguments, ctypes.byref(error))
        assert error.value is None, error.value
        return result


@cache
def _own_library() -> ctypes.CDLL:
    """Load a copy of the library, separate from the reader's; it stays in memory until the process ends."""
    return load_library()


_Full = ctypes.CFUNCTYPE(
    _P, _P, _P, ctypes.c_size_t, _P, ctypes.c_size_t, _P, _P, ctypes.c_int, ctypes.POINTER(ctypes.c_ubyte), _P
)
_Partial = ctypes.CFUNCTYPE(
    _P, _P, _P, ctypes.c_size_t, _P, _P, ctypes.c_int, ctypes.POINTER(ctypes.c_ubyte), ctypes.POINTER(ctypes.c_size_t)
)
_Nothing, _Name = ctypes.CFUNCTYPE(None, _P), ctypes.CFUNCTYPE(_P, _P)


def _joined(operands: int, sizes: int, number: int, before: list[bytes], size: int) -> int:
    """Join all operands by commas (`StringAppendTESTOperator`), in memory that RocksDB frees."""
    places = (_P * number).from_address(operands) if number else ()
    lengths = (ctypes.c_size_t * number).from_address(sizes) if number else ()
    parts = [ctypes.string_at(place or 0, length) for place, length in zip(places, lengths, strict=True)]
    joined = b",".join([*before, *parts])
    ctypes.c_size_t.from_address(size).value = len(joined)
    _LIBC.malloc.restype = _P
    memory = int(_LIBC.malloc(ctypes.c_size_t(max(len(joined), 1))))
    ctypes.memmove(memory, joined, len(joined))
    return memory


_LIBC = ctypes.CDLL(None)
_NAME = ctypes.create_string_buffer(b"StringAppendTESTOperator")


@_Full
def _full_merge(
    _: int, __: int, ___: int, value: int, length: int, operands: int, sizes: int, number: int, done: Any, size: int
) -> int:
    done[0] = 1
    return _joined(operands, sizes, number, [] if value is None else [ctypes.string_at(value, length)], size)


@_Partial
def _partial_merge(_: int, __: int, ___: int, operands: int, sizes: int, number: int, done: Any, size: Any) -> int:
    done[0] = 1
    return _joined(operands, sizes, number, [], ctypes.addressof(size.contents))


@_Nothing
def _forget(_: int) -> None:
    pass


@_Name
def _name(_: int) -> int:
    return ctypes.addressof(_NAME)


def _merge_operator() -> tuple[Any, ...]:
    """Return the arguments of `rocksdb_mergeoperator_create`: Flink's merge operator, which old releases lack."""
    return None, _forget, _full_merge, _partial_merge, None, _name


_Filter = ctypes.CFUNCTYPE(
    ctypes.c_ubyte, _P, ctypes.c_int, _P, _SIZE, _P, _SIZE, ctypes.POINTER(_P), ctypes.POINTER(_SIZE), _Flag
)


def _compaction_filter(change: Callable[[bytes], bytes]) -> tuple[Any, ...]:
    """Return the arguments of `rocksdb_compactionfilter_create`, which must live as long as the database."""
    values: list[ctypes.Array[ctypes.c_char]] = []

    @_Filter
    def changed(
        _: int, __: int, ___: int, ____: int, value: int, length: int, new: Any, size: Any, is_changed: Any
    ) -> int:
        before = ctypes.string_at(value, length)
        if (after := change(before)) != before:
            values.append(ctypes.create_string_buffer(after, len(after)))
            new[0], size[0], is_changed[0] = ctypes.addressof(values[-1]), len(after), 1
        return 0

    return None, _forget, changed, _name


def _sized(data: bytes) -> tuple[Any, Any]:
    text, size = _SIZED
    return text(data), size(len(data))


@contextmanager
def written(path: Path, states: Sequence[str], options: str = MERGE) -> Iterator[Writer]:
    """Open a database at `path` with these states during the block; with the default options, create it first."""
    writer = Writer(path, states, options)
    try:
        yield writer
    finally:
        writer.close()


def listed(path: Path) -> list[StoredFile]:
    """Return the files of a directory as a handle lists them."""
    return [StoredFile(file.name, str(file), file.stat().st_size) for file in sorted(path.iterdir())]
