"""Writer of SST files from sorted rows, block by block, as RocksDB's `SstFileWriter` writes them.

All Flink releases that Rescale supports read the format of the files: format version 5, CRC-32C, LZ4. Snappy, Flink's
own choice, makes smaller files but takes two to three times as long. All rows of a writer have the same sequence
number, which is 0 if no older row can lie below them. A file ends at a fixed size, as in RocksDB's compactions. The
writer passes finished blocks on in small batches, so only the index of a file is wholly in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from rescale.flink.arrays import Bytes, Longs
from rescale.rocksdb.engine.library import library
from rescale.rocksdb.manifest.edit_reader import KEY_TRAILER_SIZE
from rescale.rocksdb.manifest.version_edit import VALUE
from rescale.rocksdb.sst.block_writer import FORMAT_VERSION, BlockFile, write_entries, write_handle
from rescale.rocksdb.sst.identity import new_identity
from rescale.rocksdb.sst.table_blocks import TRAILER_SIZE
from rescale.rocksdb.sst.table_properties import PROPERTIES, property_entries
from rescale.text.errors import IntegrityError, RescaleError, SnapshotError

TABLE_BYTES = 64 * 1024 * 1024
"""Bytes of keys and values at which a file ends (as `target_file_size_base`, but before compression)."""

_BYTES_AT_ONCE = 256 * 1024
"""Bytes of blocks that are passed on together: few enough for a processor's cache."""

_UNKNOWN_COLUMN_FAMILY = 0x7FFFFFFF
"""Column family id that RocksDB reads as unknown (`kUnknownColumnFamily`)."""


ALL_VALUES = np.empty(0, np.uint8)


class Rows(NamedTuple):
    """Rows in arrays: row i has the key `data[key_begins[i]:key_ends[i]]`, which begins with its key group.

    The value of row i is `data[value_begins[i]:value_ends[i]]`. `kinds[i]` is RocksDB's `ValueType`: 1 for a value, 0
    for a delete, whose value is empty. If `kinds` is empty, all rows are values.
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


class ByteSink(Protocol):
    """Destination of a file's bytes."""

    def write(self, data: memoryview) -> None:
        """Write the next bytes, and keep no reference to `data`, which the caller overwrites."""


File = TypeVar("File", bound=ByteSink)


@dataclass(frozen=True)
class WrittenTable(Generic[File]):
    """A finished SST file of `size` bytes, written to `file`; `number` counts the files of its writer from 0 on.

    The file has `row_count` rows, from `smallest_key` to `largest_key`. `bound_kinds` are the kinds of its first and
    its last row.
    """

    file: File
    number: int
    size: int
    row_count: int
    smallest_key: bytes
    largest_key: bytes
    bound_kinds: tuple[int, int]


class TableWriter(Generic[File]):
    """Writer of the rows of one state into files; `begin_file(number)` opens file `number`, from 0 on.

    `name` must be unique among all writers; the session ids of the files are derived from it. The same name,
    `creation_time` (seconds since 1970) and rows give the same bytes. All rows get the sequence number `sequence`. A
    file ends at `table_bytes` bytes of keys and values. `path` and `state` name the origin of the rows in errors.
    """

    def __init__(
        self,
        begin_file: Callable[[int], File],
        name: str,
        *,
        creation_time: int,
        path: str,
        state: str,
        table_bytes: int = TABLE_BYTES,
        sequence: int = 0,
    ) -> None:
        from rescale.rocksdb.engine import table_loop  # imported late: it needs numba, which only tasks have

        library()
        self._table_loop = table_loop
        self._begin_file, self._name, self._creation_time = begin_file, name, creation_time
        self._path, self._state = path, state
        self._table_bytes = table_bytes
        self._file: File | None = None
        self._number = 0
        self._first_key, self._first_kind = b"", VALUE
        self._last_key = np.empty(64, np.uint8)
        self._out, self._scratch = np.empty(_BYTES_AT_ONCE, np.uint8), np.empty(_BYTES_AT_ONCE, np.uint8)
        self._index, self._index_restarts = np.empty(_BYTES_AT_ONCE, np.uint8), np.empty(_BYTES_AT_ONCE // 16, np.int64)
        self._restarts = np.empty(table_loop.MOST_RESTARTS, np.int64)
        self._lz4 = table_loop.lz4_state()
        self._numbers = np.zeros(table_loop.SEQUENCE + 1, np.int64)
        self._numbers[table_loop.LAST_KEY_SIZE] = -1
        self._numbers[table_loop.SEQUENCE] = sequence

    def write(self, rows: Rows, order: Longs) -> Iterator[WrittenTable[File]]:
        """Write the rows with the indexes `order`, in this order; yield each file that becomes full.

        Raises `SnapshotError` for a duplicate key, `IntegrityError` for a key out of order, and the errors of
        `begin_file` and `ByteSink.write`.
        """
        table_loop, next_index = self._table_loop, 0
        while next_index < len(order):
            if self._file is None:
                self._file, first_row = self._begin_file(self._number), int(order[next_index])
                self._first_key, self._first_kind = rows.key(first_row), rows.kind(first_row)
            next_index, reason = table_loop.put_rows(
                *rows,
                order,
                next_index,
                self._table_bytes,
                self._numbers,
                self._last_key,
                self._out,
                self._scratch,
                self._lz4,
                self._restarts,
                self._index,
                self._index_restarts,
            )
            if reason == table_loop.OUT_OF_ORDER:
                raise self._key_order_error(rows.key(int(order[next_index])))
            if reason == table_loop.FULL:
                yield self._finish_table()
            elif reason == table_loop.NO_ROOM:
                self._make_room(rows, int(order[next_index]))

    def finish(self) -> Iterator[WrittenTable[File]]:
        """Yield the last file, if it has rows."""
        if self._file is not None:
            yield self._finish_table()

    def _make_room(self, rows: Rows, row: int) -> None:
        """Pass the finished blocks on, and enlarge the arrays that are too small for this row."""
        self._send()
        table_loop, numbers = self._table_loop, self._numbers
        key_size = int(rows.key_ends[row] - rows.key_begins[row])
        value_size = int(rows.value_ends[row] - rows.value_begins[row])
        self._last_key = _grown(self._last_key, key_size)
        self._out = _grown(
            self._out, int(numbers[table_loop.OUT_SIZE]) + key_size + value_size + table_loop.ROW_OVERHEAD_BYTES
        )
        if len(self._scratch) < len(self._out):
            self._scratch = np.empty(len(self._out), np.uint8)
        self._index = _grown(
            self._index,
            int(numbers[table_loop.INDEX_SIZE] + max(numbers[table_loop.LAST_KEY_SIZE], 0))
            + table_loop.INDEX_OVERHEAD_BYTES,
        )
        self._index_restarts = _grown(self._index_restarts, int(numbers[table_loop.BLOCKS]) + 1)

    def _send(self) -> None:
        """Pass the finished blocks on to the file."""
        table_loop, numbers = self._table_loop, self._numbers
        assert self._file is not None
        finished_size, filled_size = int(numbers[table_loop.BLOCK_BEGIN]), int(numbers[table_loop.OUT_SIZE])
        self._file.write(self._out[:finished_size].data)
        self._out[: filled_size - finished_size] = self._out[finished_size:filled_size].copy()
        numbers[table_loop.OUT_OFFSET] += finished_size
        numbers[table_loop.BLOCK_BEGIN], numbers[table_loop.OUT_SIZE] = 0, filled_size - finished_size

    def _finish_table(self) -> WrittenTable[File]:
        table_loop, numbers = self._table_loop, self._numbers
        self._index = _grown(
            self._index,
            int(numbers[table_loop.INDEX_SIZE] + numbers[table_loop.LAST_KEY_SIZE]) + table_loop.INDEX_OVERHEAD_BYTES,
        )
        self._index_restarts = _grown(self._index_restarts, int(numbers[table_loop.BLOCKS]) + 1)
        table_loop.finish_block(
            numbers,
            self._last_key,
            int(numbers[table_loop.LAST_KEY_SIZE]),
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
        written_table = WrittenTable(
            file=file,
            number=self._number,
            size=int(numbers[table_loop.OUT_OFFSET]) + len(tail),
            row_count=int(numbers[table_loop.ROWS]),
            smallest_key=self._first_key,
            largest_key=self._last_key[: numbers[table_loop.LAST_KEY_SIZE]].tobytes(),
            bound_kinds=(self._first_kind, int(numbers[table_loop.LAST_KIND])),
        )
        self._prepare_next_file()
        return written_table

    def _prepare_next_file(self) -> None:
        """Reset the state for the next file, whose keys must be larger than the last key of the finished file."""
        table_loop, numbers = self._table_loop, self._numbers
        self._file, self._number = None, self._number + 1
        if len(self._out) > _BYTES_AT_ONCE:
            self._out, self._scratch = np.empty(_BYTES_AT_ONCE, np.uint8), np.empty(_BYTES_AT_ONCE, np.uint8)
        kept_numbers = numbers[[table_loop.LAST_KEY_SIZE, table_loop.SEQUENCE]]
        numbers[:] = 0
        numbers[[table_loop.LAST_KEY_SIZE, table_loop.SEQUENCE]] = kept_numbers

    def _tail(self) -> bytes:
        """Return the end of the file, after the data blocks: index, properties, metaindex, footer."""
        table_loop, numbers = self._table_loop, self._numbers
        restarts = self._index_restarts[: numbers[table_loop.BLOCKS]]
        content = self._index[: numbers[table_loop.INDEX_SIZE]].tobytes()
        content += np.append(restarts, len(restarts)).astype("<u4").tobytes()
        index = np.frombuffer(bytearray(content) + bytes(TRAILER_SIZE), np.uint8)
        size = table_loop.seal_block(index, 0, len(content), np.empty(len(content), np.uint8), self._lz4)
        start = int(numbers[table_loop.OUT_OFFSET])
        file = BlockFile(start)
        index_handle = file.add_sealed(index[: size + TRAILER_SIZE].tobytes())
        properties_handle = file.add(write_entries(self._properties(len(content) + TRAILER_SIZE)))
        metaindex_handle = file.add(
            write_entries([(PROPERTIES, write_handle(properties_handle))], stores_whole_keys=True)
        )
        return file.finish(metaindex_handle, index_handle)

    def _properties(self, index_size: int) -> list[tuple[bytes, bytes]]:
        table_loop, numbers = self._table_loop, self._numbers.tolist()
        return property_entries(
            {
                "column.family.id": _UNKNOWN_COLUMN_FAMILY,
                "creation.time": self._creation_time,
                "data.size": numbers[table_loop.OUT_OFFSET],
                "deleted.keys": numbers[table_loop.DELETES],
                "file.creation.time": self._creation_time,
                "format.version": FORMAT_VERSION,
                "index.size": index_size,
                "num.data.blocks": numbers[table_loop.BLOCKS],
                "key.largest.seqno": numbers[table_loop.SEQUENCE],
                "num.entries": numbers[table_loop.ROWS],
                "num.filter_entries": 0,
                "oldest.key.time": self._creation_time,
                "original.file.number": 1,
                "raw.key.size": numbers[table_loop.KEY_BYTES] + KEY_TRAILER_SIZE * numbers[table_loop.ROWS],
                "raw.value.size": numbers[table_loop.VALUE_BYTES],
                "tail.start.offset": numbers[table_loop.OUT_OFFSET],
            },
            {"compression": "LZ4", "merge.operator": "nullptr", **new_identity(f"{self._name}/{self._number:06d}.sst")},
        )

    def _key_order_error(self, key: bytes) -> RescaleError:
        last_key = self._last_key[: self._numbers[self._table_loop.LAST_KEY_SIZE]].tobytes()
        if key == last_key:
            return SnapshotError("two rows have the same key", path=self._path, state=self._state, found=key.hex())
        return IntegrityError(
            "a row is out of order",
            path=self._path,
            state=self._state,
            expected=f"a key after {last_key.hex()}",
            found=key.hex(),
        )


Array = TypeVar("Array", Bytes, Longs)


def _grown(array: Array, size: int) -> Array:
    """Return the array, or a larger copy of it if it has fewer than `size` elements."""
    if size <= len(array):
        return array
    larger = np.empty(max(size, 2 * len(array)), array.dtype)
    larger[: len(array)] = array
    return larger
