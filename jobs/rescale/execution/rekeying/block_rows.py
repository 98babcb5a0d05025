"""Packs blocks into the rows of bytes that the shuffle sends, each with an index of the blocks in it.

    Row:    operator:u32 unit:u32 batch:u32 number of blocks:u32  { cell:u32 size:u32 last:u32 }*  blocks

A cell is a key group of the result and a state in it: key group × number of states + state id. `last` is the offset in
a block of its last record. Blocks of one cell are sorted by unit and batch, so records keep the source's order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rescale.flink.arrays import Longs
from rescale.flink.key_groups import prefix_size
from rescale.flink.keyed.blocks.records import Records

_ROW_HEAD = struct.Struct("<4I")
ROW_SIZE = 256 * 1024
"""Target size of a row in bytes, neither too small nor too large for Spark; a larger row holds a single block."""

INDEX = np.dtype([("cell", "<u4"), ("size", "<u4"), ("last", "<u4")])
Index = npt.NDArray[np.void]


class BlockSorter:
    """Sorts batches of records into blocks for one operator; its buffers are reused for the next batch."""

    def __init__(self, max_parallelism: int, number_of_states: int) -> None:
        self.number_of_cells = max_parallelism * number_of_states
        self._states = number_of_states
        self._prefix = prefix_size(max_parallelism)
        self._cell_ends = np.empty(self.number_of_cells, np.int64)
        self._last_offsets = np.empty(self.number_of_cells, np.int64)
        self._out = np.empty(0, np.uint8)

    def sort(self, records: Records, states: Longs, groups: Longs) -> tuple[Index, memoryview]:
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
        index = np.empty(len(filled_cells), INDEX)
        index["cell"], index["size"] = filled_cells, sizes[filled_cells]
        index["last"] = self._last_offsets[filled_cells] - (self._cell_ends[filled_cells] - sizes[filled_cells])
        return index, self._out[:size].data


def write_rows(
    operator: int, unit: int, batch: int, index: Index, blocks: memoryview, borders: Longs
) -> Iterator[tuple[int, bytes]]:
    """Pack blocks into rows; yield (section, row).

    The cells in `borders` divide the blocks into sections: section i begins at cell `borders[i]`. A row has blocks of
    one section only.
    """
    ends = np.cumsum(index["size"], dtype=np.int64)
    sections = np.searchsorted(borders, index["cell"].astype(np.int64), side="right") - 1
    first = 0
    while first < len(index):
        begin = int(ends[first]) - int(index["size"][first])
        section_end = int(np.searchsorted(sections, sections[first], side="right"))
        end = min(section_end, max(first + 1, int(np.searchsorted(ends, begin + ROW_SIZE, side="right"))))
        head = _ROW_HEAD.pack(operator, unit, batch, end - first)
        yield int(sections[first]), b"".join((head, index[first:end].tobytes(), blocks[begin : int(ends[end - 1])]))
        first = end


class BlockRow(NamedTuple):
    operator: int
    unit: int
    batch: int
    blocks: Index
    data: memoryview


def read_row(data: bytes) -> BlockRow:
    """Read a row that `write_rows` made."""
    operator, unit, batch, count = _ROW_HEAD.unpack_from(data)
    index = np.frombuffer(data, INDEX, count, _ROW_HEAD.size)
    return BlockRow(operator, unit, batch, index, memoryview(data)[_ROW_HEAD.size + index.nbytes :])
