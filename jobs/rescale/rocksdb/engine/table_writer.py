"""New SST files of rows in the order of their keys, built here block by block as RocksDB does it (`SstFileWriter`).

The settings are those that both families of Flink's releases read: version 5 of the format, CRC-32C, LZ4. Snappy, which
Flink itself sets, makes smaller files of what can be packed, in two to three times the time. All rows of a writer have
one sequence number: 0 where nothing lies below them. A file is cut when enough has gone into it, as RocksDB's
compactions do. Finished blocks leave at once, so of a file only its index is held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from rescale.flink.arrays import Bytes, Longs
from rescale.rocksdb.engine.library import library
from rescale.rocksdb.manifest.version_edit import VALUE
from rescale.rocksdb.sst.block_writer import FORMAT_VERSION, BlockFile, write_entries, write_handle
from rescale.rocksdb.sst.identity import new_identity
from rescale.rocksdb.sst.table_blocks import TRAILER_SIZE
from rescale.rocksdb.sst.table_properties import PROPERTIES, property_entries
from rescale.text.errors import IntegrityError, RescaleError, SnapshotError

TABLE_BYTES = 64 * 1024 * 1024
"""Bytes of keys and values at which a file is cut (like `target_file_size_base`, but before compression)."""

_OUT = 256 * 1024
"""Bytes of blocks that are written at once: few enough for the caches of a processor."""

_KEY_TRAILER = 8
_UNKNOWN = 0x7FFFFFFF
"""`kUnknownColumnFamily`."""


ALL_VALUES = np.empty(0, np.uint8)


class Rows(NamedTuple):
    """Row i has the key `data[key_begins[i]:key_ends[i]]`, which begins with its key group, and a value likewise.

    `kinds[i]` is RocksDB's `ValueType`: 1 for a value, 0 for a delete, which has no bytes of a value. Without kinds
    all rows are values.
    """

    data: Bytes
    key_begins: Longs
    key_ends: Longs
    value_begins: Longs
    value_ends: Longs
    kinds: Bytes = ALL_VALUES

    def key(self, row: int) -> bytes:
        return self.data[self.key_begins[row] : self.key_ends[row]].tobytes()

    def kind(self, row: int) -> int:
        return int(self.kinds[row]) if len(self.kinds) else VALUE


class Taker(Protocol):
    """Takes the bytes of a file."""

    def write(self, data: memoryview) -> None:
        """The next ones, which are overwritten afterwards."""


File = TypeVar("File", bound=Taker)


@dataclass(frozen=True)
class WrittenTable(Generic[File]):
    """All `size` bytes of an SST file went to `file`; `smallest` and `largest` are the first and last of `rows` keys.

    It is file `number` of its writer. `deletes` of the rows are deletes; `kinds` are those of the first and last row.
    """

    file: File
    number: int
    size: int
    rows: int
    smallest: bytes
    largest: bytes
    deletes: int = 0
    kinds: tuple[int, int] = (VALUE, VALUE)


class TableWriter(Generic[File]):
    """Writes the rows of one state into files that `begin` makes, given their numbers, from 0 on.

    `name` says whose files these are, in words that no other writer has: with the same name, `created` (seconds since
    1970) and rows, the files have the same bytes. `path` and `state` are for errors: where the rows come from. All rows
    get the number `sequence`.
    """

    def __init__(
        self,
        begin: Callable[[int], File],
        name: str,
        *,
        created: int,
        path: str,
        state: str,
        table_bytes: int = TABLE_BYTES,
        sequence: int = 0,
    ) -> None:
        from rescale.rocksdb.engine import table_loop  # compiled, and only tasks have numba

        library()
        self._loop = table_loop
        self._begin, self._name, self._created = begin, name, created
        self._path, self._state = path, state
        self._table_bytes = table_bytes
        self._file: File | None = None
        self._number = 0
        self._first, self._first_kind = b"", VALUE
        self._last = np.empty(64, np.uint8)
        self._out, self._scratch = np.empty(_OUT, np.uint8), np.empty(_OUT, np.uint8)
        self._index, self._index_restarts = np.empty(_OUT, np.uint8), np.empty(_OUT // 16, np.int64)
        self._restarts = np.empty(table_loop.MOST_RESTARTS, np.int64)
        self._lz4 = table_loop.lz4_state()
        self._numbers = np.zeros(table_loop.SEQUENCE + 1, np.int64)
        self._numbers[table_loop.LAST] = -1
        self._numbers[table_loop.SEQUENCE] = sequence

    def write(self, rows: Rows, order: Longs) -> Iterator[WrittenTable[File]]:
        """Writes the rows with these numbers, one after the other; yields each file that is full.

        `SnapshotError` for a key that is there twice, `IntegrityError` for one out of order; what the files raise.
        """
        loop, at = self._loop, 0
        while at < len(order):
            if self._file is None:
                self._file, first = self._begin(self._number), int(order[at])
                self._first, self._first_kind = rows.key(first), rows.kind(first)
            at, reason = loop.put_rows(
                *rows,
                order,
                at,
                self._table_bytes,
                self._numbers,
                self._last,
                self._out,
                self._scratch,
                self._lz4,
                self._restarts,
                self._index,
                self._index_restarts,
            )
            if reason == loop.OUT_OF_ORDER:
                raise self._wrong_order(rows.key(int(order[at])))
            if reason == loop.FULL:
                yield self._finished()
            elif reason == loop.NO_ROOM:
                self._make_room(rows, int(order[at]))

    def finish(self) -> Iterator[WrittenTable[File]]:
        """The last file, unless all rows are in others already."""
        if self._file is not None:
            yield self._finished()

    def _make_room(self, rows: Rows, row: int) -> None:
        """For this row, and whatever lacks room."""
        self._send()
        loop, numbers = self._loop, self._numbers
        key = int(rows.key_ends[row] - rows.key_begins[row])
        value = int(rows.value_ends[row] - rows.value_begins[row])
        self._last = _grown(self._last, key)
        self._out = _grown(self._out, int(numbers[loop.AT]) + key + value + loop.ROOM)
        if len(self._scratch) < len(self._out):
            self._scratch = np.empty(len(self._out), np.uint8)
        self._index = _grown(self._index, int(numbers[loop.INDEX] + max(numbers[loop.LAST], 0)) + loop.INDEX_ROOM)
        self._index_restarts = _grown(self._index_restarts, int(numbers[loop.BLOCKS]) + 1)

    def _send(self) -> None:
        """All finished blocks."""
        loop, numbers = self._loop, self._numbers
        assert self._file is not None
        done, filled = int(numbers[loop.BLOCK]), int(numbers[loop.AT])
        self._file.write(self._out[:done].data)
        self._out[: filled - done] = self._out[done:filled].copy()
        numbers[loop.OFFSET] += done
        numbers[loop.BLOCK], numbers[loop.AT] = 0, filled - done

    def _finished(self) -> WrittenTable[File]:
        loop, numbers = self._loop, self._numbers
        self._index = _grown(self._index, int(numbers[loop.INDEX] + numbers[loop.LAST]) + loop.INDEX_ROOM)
        self._index_restarts = _grown(self._index_restarts, int(numbers[loop.BLOCKS]) + 1)
        loop.finish_block(
            numbers,
            self._last,
            int(numbers[loop.LAST]),
            0,
            self._out,
            self._scratch,
            self._lz4,
            self._restarts,
            self._index,
            self._index_restarts,
        )
        self._send()
        file = self._file
        assert file is not None
        tail = self._tail()
        file.write(memoryview(tail))
        written = WrittenTable(
            file,
            self._number,
            int(numbers[loop.OFFSET]) + len(tail),
            int(numbers[loop.ROWS]),
            self._first,
            self._last[: numbers[loop.LAST]].tobytes(),
            int(numbers[loop.DELETES]),
            (self._first_kind, int(numbers[loop.KIND])),
        )
        self._begin_anew()
        return written

    def _begin_anew(self) -> None:
        """The next file, in which keys go on where those of the last one ended."""
        loop, numbers = self._loop, self._numbers
        self._file, self._number = None, self._number + 1
        if len(self._out) > _OUT:
            self._out, self._scratch = np.empty(_OUT, np.uint8), np.empty(_OUT, np.uint8)
        kept = numbers[[loop.LAST, loop.SEQUENCE]]
        numbers[:] = 0
        numbers[[loop.LAST, loop.SEQUENCE]] = kept

    def _tail(self) -> bytes:
        """Return the end of the file after the rows: index, properties, metaindex, footer."""
        loop, numbers = self._loop, self._numbers
        restarts = self._index_restarts[: numbers[loop.BLOCKS]]
        content = self._index[: numbers[loop.INDEX]].tobytes()
        content += np.append(restarts, len(restarts)).astype("<u4").tobytes()
        index = np.frombuffer(bytearray(content) + bytes(TRAILER_SIZE), np.uint8)
        size = loop.seal_block(index, 0, len(content), np.empty(len(content), np.uint8), self._lz4)
        start = int(numbers[loop.OFFSET])
        file = BlockFile(start)
        stored = file.add_sealed(index[: size + TRAILER_SIZE].tobytes())
        properties = file.add(write_entries(self._properties(len(content) + TRAILER_SIZE)))
        metaindex = file.add(write_entries([(PROPERTIES, write_handle(properties))], whole_keys=True))
        return file.finish(metaindex, stored)

    def _properties(self, index_size: int) -> list[tuple[bytes, bytes]]:
        loop, numbers = self._loop, self._numbers.tolist()
        return property_entries(
            {
                "column.family.id": _UNKNOWN,
                "creation.time": self._created,
                "data.size": numbers[loop.OFFSET],
                "deleted.keys": numbers[loop.DELETES],
                "file.creation.time": self._created,
                "format.version": FORMAT_VERSION,
                "index.size": index_size,
                "num.data.blocks": numbers[loop.BLOCKS],
                "key.largest.seqno": numbers[loop.SEQUENCE],
                "num.entries": numbers[loop.ROWS],
                "num.filter_entries": 0,
                "oldest.key.time": self._created,
                "original.file.number": 1,
                "raw.key.size": numbers[loop.KEYS] + _KEY_TRAILER * numbers[loop.ROWS],
                "raw.value.size": numbers[loop.VALUES],
                "tail.start.offset": numbers[loop.OFFSET],
            },
            {"compression": "LZ4", "merge.operator": "nullptr", **new_identity(f"{self._name}/{self._number:06d}.sst")},
        )

    def _wrong_order(self, key: bytes) -> RescaleError:
        last = self._last[: self._numbers[self._loop.LAST]].tobytes()
        if key == last:
            return SnapshotError("a key is there twice", path=self._path, state=self._state, found=key.hex())
        return IntegrityError(
            "a row is out of order",
            path=self._path,
            state=self._state,
            expected=f"a key behind {last.hex()}",
            found=key.hex(),
        )


Array = TypeVar("Array", Bytes, Longs)


def _grown(array: Array, size: int) -> Array:
    """The array, or a larger one with the same beginning."""
    if size <= len(array):
        return array
    larger = np.empty(max(size, 2 * len(array)), array.dtype)
    larger[: len(array)] = array
    return larger
