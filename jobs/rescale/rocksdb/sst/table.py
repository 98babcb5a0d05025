"""Reader of an SST file from its end: footer, metaindex, properties and index, then single data blocks."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np

from rescale.flink.advice import RESCALE_CANONICAL_SAVEPOINT
from rescale.flink.arrays import Bytes, Longs
from rescale.rocksdb.manifest.edit_reader import EditReader
from rescale.rocksdb.sst.footer import FOOTER_SIZE, check_handle, read_footer
from rescale.rocksdb.sst.index_places import block_offsets, key_groups_of_blocks, separators
from rescale.rocksdb.sst.table_blocks import (
    TRAILER_SIZE,
    BlockHandle,
    ChecksumType,
    DataBlocks,
    read_handle,
    uncompressed_blocks,
    uncompressed_content,
)
from rescale.rocksdb.sst.table_entries import HASH_INDEX_FLAG, IndexEntry, TableRow, entries, index_entries, rows
from rescale.rocksdb.sst.table_properties import PROPERTIES, RANGE_DELETIONS, TableProperties, read_properties
from rescale.text.errors import SnapshotError, UnsupportedError

TAIL_SIZE = 4096
"""Bytes at the end of a file that are read first: usually everything after the index, or the whole of a small file."""

_DICTIONARY = b"rocksdb.compression_dict"
"""Metaindex name of the compression dictionary, which only data blocks use."""

_PARTITIONED_FILTER = b"partitionedfilter."
"""Metaindex prefix of a partitioned filter, which is an index of filter blocks (`PartitionedFilterBlockBuilder`)."""

T = TypeVar("T")

Read = Callable[[int, int], bytes]
"""Function that reads an SST file: (offset in the SST file, number of bytes) to bytes."""


def read_at(descriptor: int, start: int, size: int) -> bytes:
    """Return up to `size` bytes of an open file from offset `start` on."""
    return os.pread(descriptor, size, start)


class RangeTombstone(NamedTuple):
    """Range tombstone: deletion of all rows with user keys in [begin, end) that are older than `sequence`."""

    begin: bytes
    end: bytes
    sequence: int


class SstTable:
    """Reader of an SST file of `size` bytes, which lies in the file `path` from offset `start` on.

    The constructor reads only the end of the SST file. All methods raise `SnapshotError` for a damaged file, and
    `UnsupportedError` for an unsupported format.
    """

    def __init__(self, read: Read, size: int, path: str, start: int = 0) -> None:
        self._read = read
        self._size = size
        self.path = path
        self.start = start
        self._tail = read(max(0, size - TAIL_SIZE), min(size, TAIL_SIZE))
        self._footer = read_footer(self._tail[-FOOTER_SIZE:], size, path, start)
        metaindex = self._block(self._footer.metaindex_handle)
        self._metaindex = dict(entries(metaindex, path, self._file_offset(self._footer.metaindex_handle)))

    @cached_property
    def meta_handles(self) -> dict[bytes, BlockHandle]:
        """Handles of the blocks that the metaindex names, by name: properties, filters, range tombstones."""
        offset = self._file_offset(self._footer.metaindex_handle)
        return {
            name: read_handle(EditReader(stored_handle, self.path, offset))
            for name, stored_handle in self._metaindex.items()
        }

    @property
    def index_size(self) -> int:
        """Upper bound of the bytes that are read to get the whole index."""
        if self.properties.has_partitioned_index:
            return self.properties.index_size
        return self._footer.index_handle.size + TRAILER_SIZE

    @cached_property
    def properties_handle(self) -> BlockHandle:
        if PROPERTIES not in self.meta_handles:
            raise SnapshotError("an SST file has no properties", path=self.path)
        return self.meta_handles[PROPERTIES]

    @cached_property
    def properties(self) -> TableProperties:
        handle = self.properties_handle
        property_values = dict(entries(self._block(handle), self.path, self._file_offset(handle)))
        return read_properties(property_values, self.path, self._file_offset(handle))

    def index_entries(self) -> Iterator[IndexEntry]:
        """Yield the index entries of all data blocks, in the order of their keys."""
        for handle in self._index_handles:
            yield from self._index_block(handle)

    @property
    def checksum_type(self) -> ChecksumType:
        """Type of the checksum in the trailer of each block."""
        return self._footer.checksum_type

    def all_blocks(self) -> tuple[Longs, Longs]:
        """Return the offsets and the sizes without trailers of all blocks of the file, ordered by offset."""
        index_handles = [self._footer.index_handle]
        if self.properties.has_partitioned_index:
            index_handles += (partition.handle for partition in self._index_block(self._footer.index_handle))
        filter_handles = [handle for name, handle in self.meta_handles.items() if name.startswith(_PARTITIONED_FILTER)]
        indexed_blocks = [self._blocks_of_index(handle) for handle in (*index_handles, *filter_handles)]
        other_handles = [self._footer.index_handle, self._footer.metaindex_handle, *self.meta_handles.values()]
        offsets, sizes = (
            np.concatenate(
                [
                    *(columns[i] for columns in indexed_blocks),
                    np.array([handle[i] for handle in other_handles], np.int64),
                ]
            )
            for i in range(2)
        )
        order = np.argsort(offsets, kind="stable")
        return offsets[order], sizes[order]

    def _blocks_of_index(self, index_handle: BlockHandle) -> tuple[Longs, Longs]:
        index_format = self.properties.index_format
        offsets, sizes = block_offsets(
            self._block(index_handle), index_format, self.path, self._file_offset(index_handle)
        )
        if len(offsets):
            last_index = int(np.argmax(offsets + sizes))
            check_handle(BlockHandle(int(offsets[last_index]), int(sizes[last_index])), self._size, self.path)
        return offsets, sizes

    def rows(self, handle: BlockHandle) -> Iterator[TableRow]:
        """Return the rows of a data block, ordered by key, with the newest row of a key first."""
        self._refuse_dictionary()
        return self._rows(handle)

    def data_blocks(self) -> tuple[Longs, Longs]:
        """Return the offsets and the sizes without trailers of all data blocks, ordered by key."""
        offsets, sizes = _end_to_end([self._blocks_of_index(index_handle) for index_handle in self._index_handles])
        if (offsets[1:] < offsets[:-1] + sizes[:-1] + TRAILER_SIZE).any():
            raise SnapshotError("the data blocks of an SST file overlap, or are out of order", path=self.path)
        return offsets, sizes

    def key_groups_of_blocks(self, prefix_bytes: int) -> tuple[Longs, Longs]:
        """Return for each data block the key group of its separator, and its size without trailer, as two arrays.

        A key begins with its key group in `prefix_bytes` bytes.
        """
        index_format = self.properties.index_format
        return _end_to_end(
            [
                key_groups_of_blocks(
                    self._block(index_handle), index_format, prefix_bytes, self.path, self._file_offset(index_handle)
                )
                for index_handle in self._index_handles
            ]
        )

    def separators(self) -> tuple[Bytes, Longs]:
        """Return the user keys of all data blocks' separators, end to end, and the end offset of each key."""
        data, ends = np.empty(0, np.uint8), np.empty(0, np.int64)
        for index_handle in self._index_handles:
            more_keys, more_ends = separators(
                self._block(index_handle), self.properties.index_format, self.path, self._file_offset(index_handle)
            )
            data, ends = np.concatenate([data, more_keys]), np.append(ends, more_ends + len(data))
        return data, ends

    @property
    def _index_handles(self) -> list[BlockHandle]:
        """Handles of the blocks that together form the index of the data blocks."""
        if not self.properties.has_partitioned_index:
            return [self._footer.index_handle]
        return [partition.handle for partition in self._index_block(self._footer.index_handle)]

    def read_blocks(self, offsets: Longs, sizes: Longs) -> DataBlocks:
        """Return the uncompressed contents of consecutive data blocks, with one read.

        `offsets` and `sizes` are slices of the arrays that `data_blocks` returns.
        """
        self._refuse_dictionary()
        start, end = int(offsets[0]), int(offsets[-1] + sizes[-1] + TRAILER_SIZE)
        stored = self._read(start, end - start)
        if len(stored) < end - start:
            raise SnapshotError(
                "an SST file ends inside a data block", path=self.path, expected=end, found=start + len(stored)
            )
        starts = offsets - start
        blocks = uncompressed_blocks(stored, starts, starts + sizes, self.checksum_type, self.path, self.start + start)
        if (blocks.data[blocks.ends[blocks.ends > blocks.starts] - 1] & HASH_INDEX_FLAG >> 24).any():
            raise UnsupportedError(
                "cannot read data blocks with a hash index", path=self.path, advice=RESCALE_CANONICAL_SAVEPOINT
            )
        return blocks

    def first_and_last_row(self) -> tuple[TableRow, TableRow] | None:
        """Return the first and the last row, in RocksDB's order; None for a file that has only range tombstones.

        This reads only the first and the last block of the index and of the data.
        """
        first_handle = last_handle = self._footer.index_handle
        for _ in range(2 if self.properties.has_partitioned_index else 1):
            first_entry = next(self._index_block(first_handle), None)
            last_entry = _last_or_none(self._index_block(last_handle, only_tail=True))
            if first_entry is None or last_entry is None:
                return None
            first_handle, last_handle = first_entry.handle, last_entry.handle
        first_row = next(self.rows(first_handle), None)
        last_row = _last_or_none(
            rows(self._block(last_handle), self.path, self._file_offset(last_handle), only_tail=True)
        )
        return None if first_row is None or last_row is None else (first_row, last_row)

    def range_tombstones(self) -> Iterator[RangeTombstone]:
        """Yield the range tombstones, in the order of their first keys."""
        if RANGE_DELETIONS in self.meta_handles:
            for row in self._rows(self.meta_handles[RANGE_DELETIONS]):
                yield RangeTombstone(row.key, row.value, row.sequence)

    def _refuse_dictionary(self) -> None:
        if _DICTIONARY in self.meta_handles:
            raise UnsupportedError(
                "cannot read the rows of an SST file that is compressed with a dictionary",
                path=self.path,
                advice=RESCALE_CANONICAL_SAVEPOINT,
            )

    def _rows(self, handle: BlockHandle) -> Iterator[TableRow]:
        return rows(self._block(handle), self.path, self._file_offset(handle))

    def _index_block(self, handle: BlockHandle, *, only_tail: bool = False) -> Iterator[IndexEntry]:
        index_format = self.properties.index_format
        return index_entries(
            self._block(handle), index_format, self.path, self._file_offset(handle), only_tail=only_tail
        )

    def _file_offset(self, handle: BlockHandle) -> int:
        """Return the offset of a block in the file `path`."""
        return self.start + handle.offset

    def _block(self, handle: BlockHandle) -> bytes:
        check_handle(handle, self._size, self.path)
        size = handle.size + TRAILER_SIZE
        offset_in_tail = handle.offset - (self._size - len(self._tail))
        stored_block = (
            self._tail[offset_in_tail : offset_in_tail + size]
            if offset_in_tail >= 0
            else self._read(handle.offset, size)
        )
        return uncompressed_content(stored_block, self._footer.checksum_type, self.path, self._file_offset(handle))


def _end_to_end(pairs: Sequence[tuple[Longs, Longs]]) -> tuple[Longs, Longs]:
    first, second = (np.concatenate([np.empty(0, np.int64), *(pair[i] for pair in pairs)]) for i in range(2))
    return first, second


def _last_or_none(items: Iterator[T]) -> T | None:
    last = deque(items, maxlen=1)
    return last[0] if last else None
