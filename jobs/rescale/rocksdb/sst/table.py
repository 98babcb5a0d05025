"""An SST file, read from its end: footer, metaindex, properties, index, and then whichever data blocks are wanted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple, TypeVar

from rescale.errors import SnapshotError, UnsupportedError
from rescale.flink.advice import CANONICAL
from rescale.rocksdb.manifest.edit_reader import EditReader
from rescale.rocksdb.sst.footer import FOOTER_SIZE, check_handle, read_footer
from rescale.rocksdb.sst.table_blocks import TRAILER_SIZE, BlockHandle, read_handle, unpacked
from rescale.rocksdb.sst.table_entries import IndexEntry, TableRow, entries, index_entries, rows
from rescale.rocksdb.sst.table_properties import PROPERTIES, RANGE_DELETIONS, TableProperties, read_properties

TAIL_SIZE = 4096
"""Bytes that are read first: all but the index of a usual file, and all of a small one."""

_DICTIONARY = b"rocksdb.compression_dict"
"""In the metaindex: what data blocks are compressed with, and no others."""

T = TypeVar("T")

Read = Callable[[int, int], bytes]
"""(first byte, number of bytes) of a file → as many bytes."""


class DeletedRange(NamedTuple):
    """The user keys in [begin, end), of which only rows count that are newer than `sequence`."""

    begin: bytes
    end: bytes
    sequence: int


class SstTable:
    """An SST file of `size` bytes, which lies in `path` from `start` on. Only its end is read at first.

    Everything here raises `SnapshotError` for a damaged file, and `UnsupportedError` for one that is not read.
    """

    def __init__(self, read: Read, size: int, path: str, start: int = 0) -> None:
        self._read = read
        self._size = size
        self._path = path
        self._start = start
        self._tail = read(max(0, size - TAIL_SIZE), min(size, TAIL_SIZE))
        self._footer = read_footer(self._tail[-FOOTER_SIZE:], size, path, start)
        metaindex = self._block(self._footer.metaindex)
        self._parts = dict(entries(metaindex, path, self._place(self._footer.metaindex)))

    @property
    def parts(self) -> list[BlockHandle]:
        """The blocks that the metaindex names: properties, filters, deleted ranges."""
        place = self._place(self._footer.metaindex)
        return [read_handle(EditReader(stored, self._path, place)) for stored in self._parts.values()]

    @property
    def index_size(self) -> int:
        """Bytes that are read for the index, at most."""
        if self.properties.partitioned_index:
            return self.properties.index_size
        return self._footer.index.size + TRAILER_SIZE

    @cached_property
    def properties_handle(self) -> BlockHandle:
        if PROPERTIES not in self._parts:
            raise SnapshotError("an SST file without properties", path=self._path)
        return read_handle(EditReader(self._parts[PROPERTIES], self._path, self._place(self._footer.metaindex)))

    @cached_property
    def properties(self) -> TableProperties:
        handle = self.properties_handle
        found = dict(entries(self._block(handle), self._path, self._place(handle)))
        return read_properties(found, self._path, self._place(handle))

    def index(self) -> Iterator[IndexEntry]:
        """All data blocks, in the order of their keys."""
        top = self._index_block(self._footer.index)
        if not self.properties.partitioned_index:
            yield from top
            return
        for partition in top:
            yield from self._index_block(partition.block)

    def rows(self, block: BlockHandle) -> Iterator[TableRow]:
        """What a data block says, by key and then the newest first; without ranges that were deleted."""
        if _DICTIONARY in self._parts:
            raise UnsupportedError(
                "rows of an SST file that is compressed with a dictionary are not read",
                path=self._path,
                advice=CANONICAL,
            )
        return self._rows(block)

    def ends(self) -> tuple[TableRow, TableRow] | None:
        """The first row and the last one, in RocksDB's order; None if there are only deleted ranges.

        Of index and data the first and the last block are read, and of these only the ends are looked at.
        """
        first = last = self._footer.index
        for _ in range(2 if self.properties.partitioned_index else 1):
            begin = next(self._index_block(first), None)
            end = _last(self._index_block(last, tail=True))
            if begin is None or end is None:
                return None
            first, last = begin.block, end.block
        lowest = next(self.rows(first), None)
        highest = _last(rows(self._block(last), self._path, self._place(last), tail=True))
        return None if lowest is None or highest is None else (lowest, highest)

    def deleted_ranges(self) -> Iterator[DeletedRange]:
        """In the order of their beginnings."""
        if RANGE_DELETIONS in self._parts:
            place = self._place(self._footer.metaindex)
            handle = read_handle(EditReader(self._parts[RANGE_DELETIONS], self._path, place))
            for row in self._rows(handle):
                yield DeletedRange(row.key, row.value, row.sequence)

    def _rows(self, block: BlockHandle) -> Iterator[TableRow]:
        return rows(self._block(block), self._path, self._place(block))

    def _index_block(self, handle: BlockHandle, *, tail: bool = False) -> Iterator[IndexEntry]:
        form = self.properties.index_format
        return index_entries(self._block(handle), form, self._path, self._place(handle), tail=tail)

    def _place(self, handle: BlockHandle) -> int:
        """Of a block in what holds the file."""
        return self._start + handle.offset

    def _block(self, handle: BlockHandle) -> bytes:
        check_handle(handle, self._size, self._path)
        size = handle.size + TRAILER_SIZE
        in_tail = handle.offset - (self._size - len(self._tail))
        stored = self._tail[in_tail : in_tail + size] if in_tail >= 0 else self._read(handle.offset, size)
        return unpacked(stored, self._footer.checksum, self._path, self._place(handle))


def _last(items: Iterator[T]) -> T | None:
    last = deque(items, maxlen=1)
    return last[0] if last else None
