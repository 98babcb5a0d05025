"""The blocks of a partition in the order in which they are written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rescale.execution.rekeying.block_buffer import BlockBuffer
from rescale.execution.rekeying.block_rows import read_row
from rescale.execution.writers.protocol import WriteRange
from rescale.flink.arrays import Bytes, Longs

_BLOCK_FIELDS = np.dtype(
    [(name, "<i8") for name in ("operator", "cell", "unit", "batch", "position", "size", "last_offset")],
)


@dataclass(frozen=True)
class SortedBlocks:
    """Blocks of one operator, as a writer gets them (`writers.protocol.Blocks`), at `positions` in `buffer`."""

    number_of_states: int
    cells: Longs
    sizes: Longs
    last_offsets: Longs
    positions: Longs
    buffer: BlockBuffer

    def __len__(self) -> int:
        return len(self.cells)

    def load(self, begin: int, end: int) -> tuple[Bytes, Longs]:
        return self.buffer.load(self.positions[begin:end], self.sizes[begin:end])

    def part(self, begin: int, end: int) -> SortedBlocks:
        return self._select_blocks(slice(begin, end))

    def blocks_of_state(self, state_id: int) -> SortedBlocks:
        return self._select_blocks(np.flatnonzero(self.cells % self.number_of_states == state_id))

    def _select_blocks(self, selection: slice | Longs) -> SortedBlocks:
        cells, sizes, last_offsets, positions = (
            column[selection] for column in (self.cells, self.sizes, self.last_offsets, self.positions)
        )
        return SortedBlocks(self.number_of_states, cells, sizes, last_offsets, positions, self.buffer)


@dataclass(frozen=True)
class PartitionBlocks:
    """All blocks of a partition, in the order of operator, cell, read unit and batch."""

    index: npt.NDArray[np.void]
    buffer: BlockBuffer

    def of_range(self, write_range: WriteRange, number_of_states: int) -> SortedBlocks:
        """Return the blocks of the key groups of a range."""
        operator_blocks = self.index[self.index["operator"] == write_range.operator_index]
        first_block = np.searchsorted(operator_blocks["cell"], write_range.first * number_of_states)
        end_block = np.searchsorted(operator_blocks["cell"], (write_range.last + 1) * number_of_states)
        cells, sizes, last_offsets, positions = (
            np.ascontiguousarray(operator_blocks[name][first_block:end_block])
            for name in ("cell", "size", "last_offset", "position")
        )
        return SortedBlocks(number_of_states, cells, sizes, last_offsets, positions, self.buffer)


def collect_blocks(rows: Iterable[bytes], buffer: BlockBuffer) -> PartitionBlocks:
    """Put the blocks of rows into the buffer; return a sorted index of them. The rows may come in any order."""
    blocks_of_rows: list[npt.NDArray[np.void]] = []
    for data in rows:
        row = read_row(data)
        row_blocks = np.empty(len(row.blocks), _BLOCK_FIELDS)
        row_blocks["operator"], row_blocks["unit"], row_blocks["batch"] = (
            row.operator_index,
            row.unit_index,
            row.batch_index,
        )
        for name in ("cell", "size", "last_offset"):
            row_blocks[name] = row.blocks[name]
        row_blocks["position"] = buffer.append(row.data) + np.cumsum(row_blocks["size"]) - row_blocks["size"]
        blocks_of_rows.append(row_blocks)
    joined_rows = b"".join(
        row_blocks.data for row_blocks in blocks_of_rows
    )  # faster than np.concatenate, which compares the dtypes of all parts
    blocks = np.frombuffer(joined_rows, _BLOCK_FIELDS)
    order = np.lexsort([blocks[name] for name in ("batch", "unit", "cell", "operator")])
    return PartitionBlocks(blocks[order], buffer)
