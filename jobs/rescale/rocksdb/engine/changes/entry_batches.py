"""Reads all entries of an SST file, with their sequence numbers and types, and decodes them in compiled loops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rescale.rocksdb.engine.changes.entries import Entries
from rescale.rocksdb.sst.table import SstTable
from rescale.rocksdb.sst.table_blocks import TRAILER_SIZE, DataBlocks
from rescale.text.errors import SnapshotError

_READ_AT_ONCE = 1 << 20
"""Size in bytes of the stored blocks that are read and decoded together."""


def entry_batches(table: SstTable) -> Iterator[Entries]:
    """Yield the entries of a file in order, in batches of a few blocks.

    Raises `SnapshotError` for a damaged file, and `UnsupportedError` for an unsupported format.
    """
    offsets, sizes = table.data_blocks()
    sequence = table.properties.global_sequence
    block = 0
    while block < len(offsets):
        start = int(offsets[block])
        ends = offsets[block:] + sizes[block:] + TRAILER_SIZE - start
        count = max(1, int(np.searchsorted(ends, _READ_AT_ONCE, "right")))
        blocks = table.read_blocks(offsets[block : block + count], sizes[block : block + count])
        yield _decoded(blocks, table.path, start, sequence)
        block += count


def _decoded(blocks: DataBlocks, path: str, offset: int, sequence: int) -> Entries:
    """Return the entries of blocks; `sequence` is the sequence number of all rows of an ingested file, else 0."""
    from rescale.rocksdb.engine.changes.entry_loop import decode_entries, first_unsorted, measure_entries

    count, size, is_damaged = measure_entries(*blocks)
    if is_damaged >= 0:
        raise SnapshotError("a block of rows cannot be decoded", path=path, offset=offset)
    keys = np.empty(size, np.uint8)
    key_ends, trailers, value_starts, value_ends = (np.empty(count, np.int64) for _ in range(4))
    decode_entries(*blocks, keys, key_ends, trailers, value_starts, value_ends)
    if first_unsorted(keys, key_ends, trailers) >= 0:
        raise unsorted_file_error(path)
    if sequence:
        trailers = trailers & 0xFF | sequence << 8
    key_starts = np.append(np.int64(0), key_ends[:-1])[:count]
    return Entries(blocks.data, keys, key_starts, key_ends, trailers, value_starts, value_ends)


def unsorted_file_error(path: str) -> SnapshotError:
    return SnapshotError("the rows of an SST file are not sorted by their keys", path=path)
