"""Records become blocks, rows and then key groups, equal to those of a twin that sorts and frames each record."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.execution.rekeying import block_buffer, block_rows
from rescale.execution.rekeying.block_buffer import BlockBuffer
from rescale.execution.rekeying.block_rows import INDEX_FIELDS, BlockSorter, read_row, write_rows
from rescale.execution.rekeying.sorted_blocks import PartitionBlocks, SortedBlocks, collect_blocks
from rescale.execution.writers.canonical import block_framing
from rescale.execution.writers.canonical.block_framing import blocks_by_key_group, framed
from rescale.execution.writers.protocol import WriteRange
from rescale.text.errors import StoreError
from support.blocks import RekeyedRecord, block, by_cell, regrouped
from support.canonical import Record, write_group
from support.composite import records_in_buffer

OPERATOR = 3


class ShuffledRecords(NamedTuple):
    """Records with their new key groups, by read unit and batch; write ranges begin at the key groups `borders`."""

    max_parallelism: int
    states: int
    units: list[list[list[RekeyedRecord]]]
    borders: list[int]

    def records(self) -> list[RekeyedRecord]:
        return [moving for unit in self.units for batch in unit for moving in batch]


@st.composite
def shuffled_records(draw: st.DrawFn) -> ShuffledRecords:
    max_parallelism = draw(st.sampled_from([1, 7, 128, 129, 300]))
    states = draw(st.integers(1, 4))
    groups = st.integers(0, max_parallelism - 1)
    records = st.builds(Record, st.integers(0, states - 1), st.binary(max_size=7), st.binary(max_size=12))
    batch = st.lists(st.builds(RekeyedRecord, groups, records), min_size=1, max_size=9)
    units = draw(st.lists(st.lists(batch, min_size=1, max_size=3), min_size=1, max_size=3))
    borders = sorted({0, *draw(st.lists(groups, max_size=4))})
    return ShuffledRecords(max_parallelism, states, units, borders)


@contextmanager
def small(row: int, window: int, memory: int) -> Iterator[None]:
    with (
        patch.object(block_rows, "ROW_BYTES", row),
        patch.object(block_framing, "PIECE_BYTES", window),
        patch.object(block_buffer, "MOST_BYTES_IN_MEMORY", memory),
    ):
        yield


def sorted_blocks(sorter: BlockSorter, batch: Sequence[RekeyedRecord]) -> tuple[np.ndarray, memoryview]:
    records = records_in_buffer([moving.record for moving in batch], [0] * len(batch))
    return sorter.sort(records, records.state_ids, np.array([moving.key_group for moving in batch], np.int64))


def rows_of(work: ShuffledRecords) -> list[tuple[int, bytes]]:
    """Return (number of the range, row) of all units."""
    sorter = BlockSorter(work.max_parallelism, work.states)
    borders = np.array([border * work.states for border in work.borders], np.int64)
    return [
        row
        for number, unit in enumerate(work.units)
        for i, batch in enumerate(unit)
        for row in write_rows(OPERATOR, number, i, *sorted_blocks(sorter, batch), borders)
    ]


def of_range(blocks: PartitionBlocks, operator: int, first: int, last: int, states: int) -> SortedBlocks:
    return blocks.of_range(WriteRange(operator, 0, first, last, 0), states)


def ranges_of(work: ShuffledRecords) -> list[tuple[int, int]]:
    return list(
        zip(work.borders, [*(border - 1 for border in work.borders[1:]), work.max_parallelism - 1], strict=True)
    )


@given(shuffled_records())
def test_batches_are_sorted_into_blocks(work: ShuffledRecords) -> None:
    sorter = BlockSorter(work.max_parallelism, work.states)
    for batch in (batch for unit in work.units for batch in unit):
        index, data = sorted_blocks(sorter, batch)
        expected = by_cell(batch, work.states)
        assert index.dtype == INDEX_FIELDS
        assert index["cell"].tolist() == list(expected)
        contents = {cell: block(cell_records, work.max_parallelism) for cell, cell_records in expected.items()}
        assert index["size"].tolist() == list(map(len, contents.values()))
        assert bytes(data) == b"".join(contents.values())
        last_offsets = [len(block(cell_records[:-1], work.max_parallelism)) for cell_records in expected.values()]
        assert index["last_offset"].tolist() == last_offsets


@given(shuffled_records(), st.integers(1, 60))
def test_rows_hold_blocks_of_one_range_and_are_small(work: ShuffledRecords, size: int) -> None:
    with small(size, 1000, 1000):
        rows = rows_of(work)
    ranges = ranges_of(work)
    blocks: dict[tuple[int, int], list[tuple[int, bytes]]] = {}
    for number, data in rows:
        row = read_row(data)
        assert row.operator_index == OPERATOR
        assert len(row.data) < size + row.blocks["size"][-1]
        assert len(row.data) == row.blocks["size"].sum()
        at = 0
        for cell, length, _ in row.blocks.tolist():
            assert ranges[number][0] <= cell // work.states <= ranges[number][1]
            blocks.setdefault((row.unit_index, row.batch_index), []).append((cell, bytes(row.data[at : at + length])))
            at += length
    for number, unit in enumerate(work.units):
        for i, batch in enumerate(unit):
            cells = by_cell(batch, work.states).items()
            assert blocks[number, i] == [
                (cell, block(cell_records, work.max_parallelism)) for cell, cell_records in cells
            ]


@given(shuffled_records(), st.data(), st.integers(1, 60), st.integers(1, 60), st.sampled_from([0, 1, 50, 1 << 16]))
def test_key_groups_are_framed_whatever_the_order_of_rows(
    work: ShuffledRecords, data: st.DataObject, row_size: int, window: int, memory: int
) -> None:
    expected = regrouped(work.records(), work.max_parallelism)
    with small(row_size, window, memory):
        rows = [row for _, row in data.draw(st.permutations(rows_of(work)))]
        with BlockBuffer() as buffer:
            blocks = collect_blocks(rows, buffer)
            for first, last in ranges_of(work):
                mine = of_range(blocks, OPERATOR, first, last, work.states)
                pieces = [bytes(piece) for piece in framed(mine)]
                in_order = b"".join(expected[group] for group in sorted(expected) if first <= group <= last)
                assert b"".join(pieces) == in_order
                assert bool(pieces) == bool(in_order)
                apart = {
                    group: b"".join(bytes(piece) for piece in framed(part)) for group, part in blocks_by_key_group(mine)
                }
                assert apart == {group: expected[group] for group in expected if first <= group <= last}
            assert len(of_range(blocks, OPERATOR + 1, 0, 1 << 40, work.states)) == 0


def test_blocks_of_different_operators_are_kept_apart() -> None:
    """Two operators in the same partition have key groups of the same numbers and other states."""
    first = [RekeyedRecord(2, Record(1, b"a", b"1")), RekeyedRecord(0, Record(0, b"b", b"2"))]
    other = [RekeyedRecord(2, Record(0, b"c", b"3"))]
    rows = [
        row
        for operator, states, batch in ((0, 2, first), (1, 1, other))
        for _, row in write_rows(operator, 5, 0, *sorted_blocks(BlockSorter(300, states), batch), np.zeros(1, np.int64))
    ]
    with BlockBuffer() as buffer:
        blocks = collect_blocks(reversed(rows), buffer)
        for operator, states, batch in ((0, 2, first), (1, 1, other)):
            mine = of_range(blocks, operator, 0, 299, states)
            content = b"".join(bytes(piece) for piece in framed(mine))
            assert content == b"".join(dict(sorted(regrouped(batch, 300).items())).values())


def test_no_rows_give_no_key_groups() -> None:
    with BlockBuffer() as buffer:
        blocks = of_range(collect_blocks([], buffer), 0, 0, 9, 3)
        assert list(framed(blocks)) == []
        assert list(blocks_by_key_group(blocks)) == []


def test_framed_pieces_are_at_most_a_window_or_one_block() -> None:
    batch = [
        RekeyedRecord(group, Record(0, b"k", bytes(size))) for group, size in enumerate((10, 20, 500, 1, 1, 1, 30))
    ]
    with small(1 << 16, 100, 1 << 16), BlockBuffer() as buffer:
        rows = write_rows(0, 0, 0, *sorted_blocks(BlockSorter(128, 1), batch), np.zeros(1, np.int64))
        blocks = of_range(collect_blocks([row for _, row in rows], buffer), 0, 0, 127, 1)
        pieces = [len(piece) for piece in framed(blocks)]
    large = len(write_group(2, [batch[2].record], 128))
    assert all(size <= 100 or size == large for size in pieces)
    assert sum(pieces) == sum(map(len, regrouped(batch, 128).values()))


@pytest.mark.parametrize("memory", [0, 10, 100])
def test_blocks_that_do_not_fit_into_memory_go_to_a_scratch_file(
    memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = [bytes([i]) * (i % 7) for i in range(50)]
    monkeypatch.setattr(block_buffer, "MOST_BYTES_IN_MEMORY", memory)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    with BlockBuffer() as buffer:
        places = [buffer.append(memoryview(piece)) for piece in pieces]
        assert buffer.size == sum(map(len, pieces))
        order = np.random.default_rng(1).permutation(50)
        sizes = np.array([len(pieces[i]) for i in order], np.int64)
        data, starts = buffer.load(np.array([places[i] for i in order], np.int64), sizes)
        sorted_pieces = [data[start : start + size].tobytes() for start, size in zip(starts, sizes, strict=True)]
        assert sorted_pieces == [pieces[i] for i in order]
        scratch = buffer._scratch
        assert scratch is not None
    assert scratch.closed
    assert list(tmp_path.iterdir()) == []


def test_truncated_scratch_file_raises_store_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_buffer, "MOST_BYTES_IN_MEMORY", 10)
    with BlockBuffer() as buffer:
        places = np.array([buffer.append(memoryview(bytes(20))) for _ in range(2)])
        assert buffer._scratch is not None
        buffer._scratch.flush()
        os.ftruncate(buffer._scratch.fileno(), 39)
        buffer.load(places[:1], np.array([20]))
        with pytest.raises(StoreError, match="was truncated"):
            buffer.load(places, np.array([20, 20]))


def test_missing_scratch_directory_raises_store_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_buffer, "MOST_BYTES_IN_MEMORY", 10)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "absent"))
    with BlockBuffer() as buffer, pytest.raises(StoreError, match="the scratch directory cannot be used"):
        buffer.append(memoryview(bytes(11)))
