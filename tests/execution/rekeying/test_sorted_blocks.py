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
    state_count: int
    units: list[list[list[RekeyedRecord]]]
    borders: list[int]

    def records(self) -> list[RekeyedRecord]:
        return [record for unit in self.units for batch in unit for record in batch]


@st.composite
def shuffled_records(draw: st.DrawFn) -> ShuffledRecords:
    max_parallelism = draw(st.sampled_from([1, 7, 128, 129, 300]))
    state_count = draw(st.integers(1, 4))
    groups = st.integers(0, max_parallelism - 1)
    records = st.builds(Record, st.integers(0, state_count - 1), st.binary(max_size=7), st.binary(max_size=12))
    batch = st.lists(st.builds(RekeyedRecord, groups, records), min_size=1, max_size=9)
    units = draw(st.lists(st.lists(batch, min_size=1, max_size=3), min_size=1, max_size=3))
    borders = sorted({0, *draw(st.lists(groups, max_size=4))})
    return ShuffledRecords(max_parallelism, state_count, units, borders)


@contextmanager
def small_limits(row_bytes: int, window_bytes: int, memory_bytes: int) -> Iterator[None]:
    with (
        patch.object(block_rows, "ROW_BYTES", row_bytes),
        patch.object(block_framing, "PIECE_BYTES", window_bytes),
        patch.object(block_buffer, "MOST_BYTES_IN_MEMORY", memory_bytes),
    ):
        yield


def sorted_blocks(sorter: BlockSorter, batch: Sequence[RekeyedRecord]) -> tuple[np.ndarray, memoryview]:
    records = records_in_buffer([rekeyed.record for rekeyed in batch], [0] * len(batch))
    return sorter.sort(records, records.state_ids, np.array([rekeyed.key_group for rekeyed in batch], np.int64))


def rows_of(shuffled: ShuffledRecords) -> list[tuple[int, bytes]]:
    """Return (number of the range, row) of all units."""
    sorter = BlockSorter(shuffled.max_parallelism, shuffled.state_count)
    borders = np.array([border * shuffled.state_count for border in shuffled.borders], np.int64)
    return [
        row
        for unit_index, unit in enumerate(shuffled.units)
        for batch_index, batch in enumerate(unit)
        for row in write_rows(OPERATOR, unit_index, batch_index, *sorted_blocks(sorter, batch), borders)
    ]


def blocks_of_range(
    blocks: PartitionBlocks, operator_index: int, first: int, last: int, state_count: int
) -> SortedBlocks:
    return blocks.of_range(WriteRange(operator_index, 0, first, last, 0), state_count)


def ranges_of(shuffled: ShuffledRecords) -> list[tuple[int, int]]:
    return list(
        zip(
            shuffled.borders,
            [*(border - 1 for border in shuffled.borders[1:]), shuffled.max_parallelism - 1],
            strict=True,
        )
    )


@given(shuffled_records())
def test_batches_are_sorted_into_blocks(shuffled: ShuffledRecords) -> None:
    sorter = BlockSorter(shuffled.max_parallelism, shuffled.state_count)
    for batch in (batch for unit in shuffled.units for batch in unit):
        index, data = sorted_blocks(sorter, batch)
        expected = by_cell(batch, shuffled.state_count)
        assert index.dtype == INDEX_FIELDS
        assert index["cell"].tolist() == list(expected)
        contents = {cell: block(cell_records, shuffled.max_parallelism) for cell, cell_records in expected.items()}
        assert index["size"].tolist() == list(map(len, contents.values()))
        assert bytes(data) == b"".join(contents.values())
        last_offsets = [len(block(cell_records[:-1], shuffled.max_parallelism)) for cell_records in expected.values()]
        assert index["last_offset"].tolist() == last_offsets


@given(shuffled_records(), st.integers(1, 60))
def test_rows_hold_blocks_of_one_range_and_are_small(shuffled: ShuffledRecords, row_bytes: int) -> None:
    with small_limits(row_bytes, 1000, 1000):
        rows = rows_of(shuffled)
    ranges = ranges_of(shuffled)
    blocks: dict[tuple[int, int], list[tuple[int, bytes]]] = {}
    for range_index, data in rows:
        row = read_row(data)
        assert row.operator_index == OPERATOR
        assert len(row.data) < row_bytes + row.blocks["size"][-1]
        assert len(row.data) == row.blocks["size"].sum()
        position = 0
        for cell, length, _ in row.blocks.tolist():
            assert ranges[range_index][0] <= cell // shuffled.state_count <= ranges[range_index][1]
            blocks.setdefault((row.unit_index, row.batch_index), []).append(
                (cell, bytes(row.data[position : position + length]))
            )
            position += length
    for unit_index, unit in enumerate(shuffled.units):
        for batch_index, batch in enumerate(unit):
            cells = by_cell(batch, shuffled.state_count).items()
            assert blocks[unit_index, batch_index] == [
                (cell, block(cell_records, shuffled.max_parallelism)) for cell, cell_records in cells
            ]


@given(shuffled_records(), st.data(), st.integers(1, 60), st.integers(1, 60), st.sampled_from([0, 1, 50, 1 << 16]))
def test_key_groups_are_framed_whatever_the_order_of_rows(
    shuffled: ShuffledRecords, data: st.DataObject, row_bytes: int, window_bytes: int, memory_bytes: int
) -> None:
    expected = regrouped(shuffled.records(), shuffled.max_parallelism)
    with small_limits(row_bytes, window_bytes, memory_bytes):
        rows = [row for _, row in data.draw(st.permutations(rows_of(shuffled)))]
        with BlockBuffer() as buffer:
            blocks = collect_blocks(rows, buffer)
            for first, last in ranges_of(shuffled):
                range_blocks = blocks_of_range(blocks, OPERATOR, first, last, shuffled.state_count)
                pieces = [bytes(piece) for piece in framed(range_blocks)]
                expected_content = b"".join(expected[group] for group in sorted(expected) if first <= group <= last)
                assert b"".join(pieces) == expected_content
                assert bool(pieces) == bool(expected_content)
                content_by_group = {
                    group: b"".join(bytes(piece) for piece in framed(part))
                    for group, part in blocks_by_key_group(range_blocks)
                }
                assert content_by_group == {group: expected[group] for group in expected if first <= group <= last}
            assert len(blocks_of_range(blocks, OPERATOR + 1, 0, 1 << 40, shuffled.state_count)) == 0


def test_blocks_of_different_operators_are_kept_apart() -> None:
    """Two operators in the same partition have key groups of the same numbers and other states."""
    first = [RekeyedRecord(2, Record(1, b"a", b"1")), RekeyedRecord(0, Record(0, b"b", b"2"))]
    other = [RekeyedRecord(2, Record(0, b"c", b"3"))]
    rows = [
        row
        for operator_index, state_count, batch in ((0, 2, first), (1, 1, other))
        for _, row in write_rows(
            operator_index, 5, 0, *sorted_blocks(BlockSorter(300, state_count), batch), np.zeros(1, np.int64)
        )
    ]
    with BlockBuffer() as buffer:
        blocks = collect_blocks(reversed(rows), buffer)
        for operator_index, state_count, batch in ((0, 2, first), (1, 1, other)):
            operator_blocks = blocks_of_range(blocks, operator_index, 0, 299, state_count)
            content = b"".join(bytes(piece) for piece in framed(operator_blocks))
            assert content == b"".join(dict(sorted(regrouped(batch, 300).items())).values())


def test_no_rows_give_no_key_groups() -> None:
    with BlockBuffer() as buffer:
        blocks = blocks_of_range(collect_blocks([], buffer), 0, 0, 9, 3)
        assert list(framed(blocks)) == []
        assert list(blocks_by_key_group(blocks)) == []


def test_framed_pieces_are_at_most_a_window_or_one_block() -> None:
    batch = [
        RekeyedRecord(group, Record(0, b"k", bytes(size))) for group, size in enumerate((10, 20, 500, 1, 1, 1, 30))
    ]
    with small_limits(1 << 16, 100, 1 << 16), BlockBuffer() as buffer:
        rows = write_rows(0, 0, 0, *sorted_blocks(BlockSorter(128, 1), batch), np.zeros(1, np.int64))
        blocks = blocks_of_range(collect_blocks([row for _, row in rows], buffer), 0, 0, 127, 1)
        piece_sizes = [len(piece) for piece in framed(blocks)]
    large_size = len(write_group(2, [batch[2].record], 128))
    assert all(size <= 100 or size == large_size for size in piece_sizes)
    assert sum(piece_sizes) == sum(map(len, regrouped(batch, 128).values()))


@pytest.mark.parametrize("memory_bytes", [0, 10, 100])
def test_blocks_that_do_not_fit_into_memory_go_to_a_scratch_file(
    memory_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = [bytes([i]) * (i % 7) for i in range(50)]
    monkeypatch.setattr(block_buffer, "MOST_BYTES_IN_MEMORY", memory_bytes)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    with BlockBuffer() as buffer:
        positions = [buffer.append(memoryview(piece)) for piece in pieces]
        assert buffer.size == sum(map(len, pieces))
        order = np.random.default_rng(1).permutation(50)
        sizes = np.array([len(pieces[i]) for i in order], np.int64)
        data, starts = buffer.load(np.array([positions[i] for i in order], np.int64), sizes)
        sorted_pieces = [data[start : start + size].tobytes() for start, size in zip(starts, sizes, strict=True)]
        assert sorted_pieces == [pieces[i] for i in order]
        scratch = buffer._scratch
        assert scratch is not None
    assert scratch.closed
    assert list(tmp_path.iterdir()) == []


def test_truncated_scratch_file_raises_store_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_buffer, "MOST_BYTES_IN_MEMORY", 10)
    with BlockBuffer() as buffer:
        positions = np.array([buffer.append(memoryview(bytes(20))) for _ in range(2)])
        assert buffer._scratch is not None
        buffer._scratch.flush()
        os.ftruncate(buffer._scratch.fileno(), 39)
        buffer.load(positions[:1], np.array([20]))
        with pytest.raises(StoreError, match="was truncated"):
            buffer.load(positions, np.array([20, 20]))


def test_missing_scratch_directory_raises_store_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_buffer, "MOST_BYTES_IN_MEMORY", 10)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "absent"))
    with BlockBuffer() as buffer, pytest.raises(StoreError, match="the scratch directory cannot be used"):
        buffer.append(memoryview(bytes(11)))
