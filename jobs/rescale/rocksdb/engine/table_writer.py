"""Rows in the order of their keys, written into new SST files by RocksDB (`SstFileWriter`).

The settings are those that both families of Flink's releases read: version 5 of the format, CRC-32C, LZ4. Flink 1.x
knows nothing newer; RocksDB's own defaults here would be. Snappy, which Flink itself sets, makes smaller
files of what can be packed, in two to three times the time. A file is cut when enough has gone into it, as RocksDB's
compactions do, and the times and names in it are made to be those that were planned.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np

from rescale.errors import IntegrityError, RescaleError, SnapshotError, StoreError
from rescale.flink.arrays import Bytes, Longs
from rescale.flink.key_groups import prefix_size
from rescale.flink.keyed.records import Records
from rescale.rocksdb.engine.directory import ROOM
from rescale.rocksdb.engine.library import RocksdbError, library
from rescale.rocksdb.engine.opened_directory import options_of
from rescale.rocksdb.sst.identity import HOST, settle_identity

TABLES = "compression=kLZ4Compression;block_based_table_factory={format_version=5;checksum=kCRC32c}"
"""What both families read, in the words of `GetOptionsFromString`."""

TABLE_BYTES = 64 * 1024 * 1024
"""Of keys and values in a file, from which on it is cut (`target_file_size_base`, but before compression)."""

_OPTIONS = f"{TABLES};db_host_id={HOST}"
_OUT_OF_ORDER = "Keys must be added in"


class Rows(NamedTuple):
    """Row i has the key `data[key_begins[i]:key_ends[i]]`, which begins with its key group, and a value likewise."""

    data: Bytes
    key_begins: Longs
    key_ends: Longs
    value_begins: Longs
    value_ends: Longs

    def key(self, row: int) -> bytes:
        return self.data[self.key_begins[row] : self.key_ends[row]].tobytes()


@dataclass(frozen=True)
class WrittenTable:
    """An SST file of `size` bytes at `path`; `smallest` and `largest` are the first and the last of `rows` keys."""

    path: Path
    size: int
    rows: int
    smallest: bytes
    largest: bytes


def rows_of(records: Records, max_parallelism: int) -> Rows:
    """The records as rows, in the same bytes."""
    prefix = prefix_size(max_parallelism)
    return Rows(records.data, records.starts - prefix, records.limits, records.limits + 4, records.ends)


def sorted_order(rows: Rows) -> Longs:
    """The numbers of the rows in the order of their keys, as bytes."""
    from rescale.flink.keyed.key_sort_loop import sort_keys

    order = np.empty(len(rows.key_begins), np.int64)
    sort_keys(rows.data, rows.key_begins, rows.key_ends, order, np.empty(len(order), np.uint64))
    return order


class TableWriter:
    """Writes the rows of one state into files below `folder`; a context that frees what it holds.

    `name` says whose files these are, in words that no other writer has: with the same name, `created` (seconds since
    1970) and rows, the files have the same bytes. `path` and `state` are for errors: where the rows come from.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        created: int,
        path: str,
        state: str,
        first_number: int = 0,
        table_bytes: int = TABLE_BYTES,
    ) -> None:
        self._folder, self._name, self._created = folder, name, created
        self._path, self._state = path, state
        self._table_bytes = table_bytes
        self._error = np.zeros(1, np.int64)
        self._address = 0
        self._opened: Path | None = None
        self._number = first_number
        self._rows = self._size = 0
        self._first = b""
        self._last: bytes | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        rocksdb = library()
        try:
            options = options_of(_OPTIONS, self._stack)
        except RocksdbError as error:
            raise self._failed(str(error)) from None
        environment = rocksdb.call("envoptions_create")
        self._stack.callback(rocksdb.call, "envoptions_destroy", environment)
        self._address = rocksdb.call("sstfilewriter_create", environment, options)
        self._stack.callback(rocksdb.call, "sstfilewriter_destroy", self._address)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()
        if self._opened is not None:
            self._opened.unlink(missing_ok=True)

    def write(self, rows: Rows, order: Longs) -> Iterator[WrittenTable]:
        """Writes the rows with these numbers, one after the other; yields each file that is full.

        `SnapshotError` for a key that is there twice, `IntegrityError` for one out of order, `StoreError` for what
        the disk says.
        """
        from rescale.rocksdb.engine.put_loop import put_rows

        at = 0
        while at < len(order):
            if self._opened is None:
                self._open(rows.key(int(order[at])))
            begin = at
            at, self._size = put_rows(self._address, *rows, order, at, self._size, self._table_bytes, self._error)
            self._rows += at - begin
            if self._error[0]:
                raise self._refused(rows, order, at)
            if at > begin:
                self._last = rows.key(int(order[at - 1]))
            if self._size >= self._table_bytes:
                yield self._finished()

    def finish(self) -> Iterator[WrittenTable]:
        """The last file, unless all rows are in others already."""
        if self._opened is not None:
            yield self._finished()

    def _open(self, first: bytes) -> None:
        if self._last is not None and first <= self._last:
            raise self._wrong_order(first)
        self._opened = self._folder / f"{self._number:06d}.sst"
        self._number, self._rows, self._size, self._first = self._number + 1, 0, 0, first
        try:
            library().checked("sstfilewriter_open", self._address, os.fsencode(self._opened))
        except RocksdbError as error:
            raise self._failed(str(error)) from None

    def _finished(self) -> WrittenTable:
        assert self._opened is not None
        try:
            library().checked("sstfilewriter_finish", self._address)
        except RocksdbError as error:
            raise self._failed(str(error)) from None
        path, self._opened = self._opened, None
        settle_identity(path, f"{self._name}/{path.name}", self._created)
        assert self._last is not None
        return WrittenTable(path, path.stat().st_size, self._rows, self._first, self._last)

    def _refused(self, rows: Rows, order: Longs, at: int) -> RescaleError:
        """What RocksDB said of the row at this place."""
        text = ctypes.c_char_p(int(self._error[0]))
        message = (text.value or b"").decode(errors="replace")
        library().call("free", text)
        self._error[0] = 0
        if _OUT_OF_ORDER in message:
            if at:
                self._last = rows.key(int(order[at - 1]))
            return self._wrong_order(rows.key(int(order[at])))
        return self._failed(message)

    def _wrong_order(self, key: bytes) -> RescaleError:
        if key == self._last:
            return SnapshotError("a key is there twice", path=self._path, state=self._state, found=key.hex())
        return IntegrityError(
            "a row is out of order",
            path=self._path,
            state=self._state,
            expected=f"a key behind {(self._last or b'').hex()}",
            found=key.hex(),
        )

    def _failed(self, message: str) -> RescaleError:
        full = "No space left" in message or "File too large" in message
        return StoreError(
            "RocksDB cannot write an SST file",
            path=str(self._opened or self._folder),
            state=self._state,
            found=f"RocksDB says: {message}",
            advice=ROOM if full else None,
        )
