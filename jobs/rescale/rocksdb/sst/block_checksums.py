"""Verify the checksums of all blocks of an SST file while the file is copied.

RocksDB verifies a block only when it reads the block (`BlockFetcher::CheckBlockChecksum`), so damage in a file that is
only copied could stay unnoticed for long. `BlockChecksums` first reads the offsets of the blocks from the end of
the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from rescale.rocksdb.sst.table import SstTable
from rescale.rocksdb.sst.table_blocks import LARGEST_BLOCK_BYTES, TRAILER_SIZE, check_block, check_blocks
from rescale.text.errors import SnapshotError, UnsupportedError


class BlockChecksums:
    """Verifier of the checksums of all blocks of `table`, with 16 bytes of memory for each block.

    Raises `SnapshotError` for a damaged file, and `UnsupportedError` for an unsupported format.
    """

    def __init__(self, table: SstTable) -> None:
        self._table = table
        self._starts, sizes = table.all_blocks()
        self._ends = self._starts + sizes + TRAILER_SIZE
        if int(sizes.max()) > LARGEST_BLOCK_BYTES:
            raise UnsupportedError(
                "a block of an SST file is too large",
                path=table.path,
                expected=f"at most {LARGEST_BLOCK_BYTES} bytes",
                found=f"{sizes.max()} bytes",
            )
        if overlapping_indices := np.flatnonzero(self._starts[1:] < self._ends[:-1]).tolist():
            raise SnapshotError(
                "two blocks of an SST file overlap",
                path=table.path,
                offset=table.start + int(self._starts[overlapping_indices[0] + 1]),
                advice="take another snapshot",
            )

    def __len__(self) -> int:
        return len(self._starts)

    def checked(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the `chunks` of the whole file unchanged, and verify the blocks in them.

        Raises `SnapshotError` at the first wrong checksum. Memory holds one chunk and the beginning of one block.
        """
        table = self._table
        # `block_beginning` has the bytes of block `block_number` that were in earlier chunks.
        block_beginning, block_number, chunk_start = b"", 0, 0
        for chunk in chunks:
            chunk_end = chunk_start + len(chunk)
            end_number = int(np.searchsorted(self._ends, chunk_end, "right"))
            if block_beginning and end_number > block_number:
                start, end = int(self._starts[block_number]), int(self._ends[block_number])
                stored_block = block_beginning + chunk[: end - chunk_start]
                check_block(stored_block, table.checksum_type, table.path, table.start + start)
                block_beginning, block_number = b"", block_number + 1
            starts, ends = (offsets[block_number:end_number] - chunk_start for offsets in (self._starts, self._ends))
            check_blocks(chunk, starts, ends, table.checksum_type, table.path, table.start + chunk_start)
            if end_number < len(self._starts) and (start := int(self._starts[end_number])) < chunk_end:
                block_beginning += chunk[max(start - chunk_start, 0) :]
            block_number, chunk_start = end_number, chunk_end
            yield chunk
