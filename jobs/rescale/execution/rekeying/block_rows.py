"""Packs blocks into the rows of bytes that the shuffle sends, each with an index of the blocks in it.

    Row:    operator:u32 unit:u32 batch:u32 number of blocks:u32  { cell:u32 size:u32 last_offset:u32 }*  blocks

A cell is a key group of the result and a state in it: key group × number of states + state id. `last_offset` is the
offset of the last record in its block. Reduce tasks sort the blocks of one cell by unit (`ReadUnit`) and batch, so
records keep the order of the source.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rescale.flink.arrays import Longs
from rescale.flink.key_groups import prefix_size
from rescale.flink.keyed.blocks.records import Records

_ROW_HEAD = struct.Struct("<4I")
ROW_BYTES = 1024 * 1024
"""Target size of a row in bytes, neither too small nor too large for Spark; the last block may exceed it."""

INDEX_FIELDS = np.dtype([("cell", "<u4"), ("size", "<u4"), ("last_offset", "<u4")])
BlockIndex = npt.NDArray[np.void]


class BlockSorter:
    """Sorts batches of records into blocks for one operator; its buffers are reused for the next batch."""

    def __init__(self, max_parallelism: int, number_of_states: int) -> None:
        self.number_of_cells = max_parallelism * number_of_states
        self._states = number_of_states
        self._prefix = prefix_size(max_parallelism)
        self._cell_ends = np.empty(self.number_of_cells, np.int64)
        self._last_offsets = np.empty(self.number_of_cells, np.int64)
        self._out = np.empty(0, np.uint8)

    def sort(self, records: Records, states: Longs, groups: Longs) -> tuple[BlockIndex, memoryview]:
        """Sort a batch into blocks by key group, then state; return their index and their bytes end to end.

        `states` and `groups` have the new state id and the new key group of each record.
        """
        from rescale.execution.rekeying import sort_loop

        size = int((records.ends - records.key_starts).sum()) + len(records) * (4 + self._prefix)
        if size > len(self._out):
            self._out = np.empty(size, np.uint8)
        cells = groups * self._states + states
        sort_loop.sort_records(
            records.data,
            records.key_starts,
            records.key_ends,
            records.ends,
            groups,
            cells,
            self._prefix,
            self._cell_ends,
            self._last_offsets,
            self._out,
        )
        sizes = np.diff(self._cell_ends, prepend=0)
        filled_cells = np.flatnonzero(sizes)
        index = np.empty(len(filled_cells), INDEX_FIELDS)
        index["cell"], index["size"] = filled_cells, sizes[filled_cells]
        index["last_offset"] = self._last_offsets[filled_cells] - (self._cell_ends[filled_cells] - sizes[filled_cells])
        return index, self._out[:size].data


def write_rows(
    operator_index: int, unit_index: int, batch_index: int, index: BlockIndex, blocks: memoryview, borders: Longs
) -> Iterator[tuple[int, bytes]]:
    """Pack blocks into rows; yield (section, row).

    The cells in `borders` divide the blocks into sections: section i begins at cell `borders[i]`. A row has blocks of
    one section only.
    """
    if not len(index):
        return
    ends = np.cumsum(index["size"], dtype=np.int64)
    begins = ends - index["size"]
    section_of_block = np.searchsorted(borders, index["cell"].astype(np.int64), side="right") - 1
    begins_row = (np.diff(section_of_block) != 0) | (np.diff(begins // ROW_BYTES) != 0)
    row_borders = [0, *(np.flatnonzero(begins_row) + 1).tolist(), len(index)]
    for first_block, end_block in pairwise(row_borders):
        head = _ROW_HEAD.pack(operator_index, unit_index, batch_index, end_block - first_block)
        row_blocks = blocks[int(begins[first_block]) : int(ends[end_block - 1])]
        yield int(section_of_block[first_block]), b"".join((head, index[first_block:end_block].tobytes(), row_blocks))


class BlockRow(NamedTuple):
    operator_index: int
    unit_index: int
    batch_index: int
    blocks: BlockIndex
    data: memoryview


def read_row(data: bytes) -> BlockRow:
    """Read a row that `write_rows` made."""
    operator_index, unit_index, batch_index, block_count = _ROW_HEAD.unpack_from(data)
    index = np.frombuffer(data, INDEX_FIELDS, block_count, _ROW_HEAD.size)
    return BlockRow(operator_index, unit_index, batch_index, index, memoryview(data)[_ROW_HEAD.size + index.nbytes :])
