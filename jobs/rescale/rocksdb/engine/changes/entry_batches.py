"""Reads all entries of an SST file, with their sequence numbers and types, and decodes them in compiled loops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rescale.flink.arrays import Longs
from rescale.rocksdb.engine.changes.entries import Entries
from rescale.rocksdb.sst.table import SstTable
from rescale.rocksdb.sst.table_blocks import TRAILER_SIZE, DataBlocks
from rescale.text.errors import SnapshotError

_BYTES_AT_ONCE = 1 << 20
"""Size in bytes of the stored blocks that are read and decoded together."""


def entry_batches(table: SstTable) -> Iterator[Entries]:
    """Yield the entries of a file in order, in batches of a few blocks.

    Raises `SnapshotError` for a damaged file, and `UnsupportedError` for an unsupported format.
    """
    offsets, sizes = table.data_blocks()
    ends = offsets + sizes + TRAILER_SIZE
    global_sequence = table.properties.global_sequence
    first_block = 0
    while first_block < len(offsets):
        end_of_batch = offsets[first_block] + _BYTES_AT_ONCE
        end_block = max(first_block + 1, int(np.searchsorted(ends, end_of_batch, side="right")))
        batch = slice(first_block, end_block)
        yield _decoded(table.read_blocks(offsets[batch], sizes[batch]), table.path, offsets[batch], global_sequence)
        first_block = end_block


def _decoded(blocks: DataBlocks, path: str, offsets: Longs, global_sequence: int) -> Entries:
    """Return the entries of the blocks that are stored at `offsets` of a file.

    `global_sequence` is the sequence number of all rows of an ingested file, else 0.
    """
    from rescale.rocksdb.engine.changes.entry_loop import decode_entries, first_unsorted, measure_entries

    entry_count, key_bytes, damaged_block = measure_entries(*blocks)
    if damaged_block >= 0:
        raise SnapshotError("a block of rows cannot be decoded", path=path, offset=int(offsets[damaged_block]))
    keys = np.empty(key_bytes, np.uint8)
    key_ends, trailers, value_starts, value_ends = (np.empty(entry_count, np.int64) for _ in range(4))
    decode_entries(*blocks, keys, key_ends, trailers, value_starts, value_ends)
    if first_unsorted(keys, key_ends, trailers) >= 0:
        raise unsorted_file_error(path)
    if global_sequence:
        trailers = trailers & 0xFF | global_sequence << 8
    key_starts = np.append(np.int64(0), key_ends[:-1])[:entry_count]
    return Entries(blocks.data, keys, key_starts, key_ends, trailers, value_starts, value_ends)


def unsorted_file_error(path: str) -> SnapshotError:
    return SnapshotError("the rows of an SST file are not sorted by their keys", path=path)
