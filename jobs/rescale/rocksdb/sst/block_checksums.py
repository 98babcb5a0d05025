"""Verify the checksums of all blocks of an SST file while the file is copied.

RocksDB verifies a block only when it reads the block (`BlockFetcher::CheckBlockChecksum`), so damage in a file that is
only copied could stay unnoticed for long. `BlockChecksums` first reads the offsets of the blocks from the end of
the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from rescale.rocksdb.sst.table import SstTable
from rescale.rocksdb.sst.table_blocks import LARGEST_BLOCK, TRAILER_SIZE, check_block, check_blocks
from rescale.text.errors import SnapshotError, UnsupportedError


class BlockChecksums:
    """Verifier of the checksums of all blocks of `table`, with 16 bytes of memory for each block.

    Raises `SnapshotError` for a damaged file, and `UnsupportedError` for an unsupported format.
    """

    def __init__(self, table: SstTable) -> None:
        self._table = table
        self._starts, sizes = table.all_blocks()
        self._ends = self._starts + sizes + TRAILER_SIZE
        if int(sizes.max()) > LARGEST_BLOCK:
            raise UnsupportedError(
                "a block of an SST file is too large",
                path=table.path,
                expected=f"at most {LARGEST_BLOCK} bytes",
                found=f"{sizes.max()} bytes",
            )
        if overlaps := np.flatnonzero(self._starts[1:] < self._ends[:-1]).tolist():
            raise SnapshotError(
                "two blocks of an SST file overlap",
                path=table.path,
                offset=table.start + int(self._starts[overlaps[0] + 1]),
                advice="take another snapshot",
            )

    def __len__(self) -> int:
        return len(self._starts)

    def checked(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the `chunks` of the whole file unchanged, and verify the blocks in them.

        Raises `SnapshotError` at the first wrong checksum. Memory holds one chunk and the beginning of one block.
        """
        table = self._table
        # `block_beginning` has the bytes of block `number` that were in earlier chunks.
        block_beginning, number, position = b"", 0, 0
        for chunk in chunks:
            limit = position + len(chunk)
            end_number = int(np.searchsorted(self._ends, limit, "right"))
            if block_beginning and end_number > number:
                start, end = int(self._starts[number]), int(self._ends[number])
                stored_block = block_beginning + chunk[: end - position]
                check_block(stored_block, table.checksum, table.path, table.start + start)
                block_beginning, number = b"", number + 1
            starts, ends = (offsets[number:end_number] - position for offsets in (self._starts, self._ends))
            check_blocks(chunk, starts, ends, table.checksum, table.path, table.start + position)
            if end_number < len(self._starts) and (start := int(self._starts[end_number])) < limit:
                block_beginning += chunk[max(start - position, 0) :]
            number, position = end_number, limit
            yield chunk
