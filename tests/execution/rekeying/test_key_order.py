"""Records of a key group and state come in the order of their keys, however little memory there is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.execution.rekeying import block_buffer, block_rows
from rescale.execution.rekeying.block_buffer import BlockBuffer
from rescale.execution.rekeying.block_rows import BlockSorter, write_rows
from rescale.execution.rekeying.key_order import in_key_order
from rescale.execution.rekeying.sorted_blocks import SortedBlocks, collect_blocks
from rescale.execution.writers import windows
from rescale.execution.writers.protocol import WriteRange
from rescale.execution.writers.rocksdb.rows_writer import rows_of_blocks
from support.blocks import RekeyedRecord
from support.canonical import Record, prefix
from support.composite import records_in_buffer

GROUP_COUNT, STATE_COUNT = 3, 2
WHOLE = WriteRange(0, 0, 0, GROUP_COUNT - 1, 0)

records = st.builds(
    RekeyedRecord,
    st.integers(0, GROUP_COUNT - 1),
    st.builds(
        Record, st.integers(0, STATE_COUNT - 1), st.binary(max_size=2) | st.binary(max_size=40), st.binary(max_size=30)
    ),
)
batches = st.builds(
    lambda records, size: list(batched(records, size)),
    st.lists(
        records, min_size=1, max_size=60, unique_by=lambda each: (each.key_group, each.record.state, each.record.key)
    ),
    st.integers(1, 20),
)
"""Batches of records in which a state holds each key once."""


def batched(records: list[RekeyedRecord], size: int) -> Iterator[list[RekeyedRecord]]:
    return (records[start : start + size] for start in range(0, len(records), size))


def rows_of(batches: Sequence[Sequence[RekeyedRecord]]) -> list[bytes]:
    """Return the rows of batches that are sorted one after the other."""
    sorter = BlockSorter(GROUP_COUNT, STATE_COUNT)
    rows = []
    for unit_index, batch in enumerate(batches):
        buffer = records_in_buffer([rekeyed.record for rekeyed in batch], [0] * len(batch))
        index, data = sorter.sort(
            buffer, buffer.state_ids, np.array([rekeyed.key_group for rekeyed in batch], np.int64)
        )
        rows += [row for _, row in write_rows(0, unit_index, 0, index, data, np.zeros(1, np.int64))]
    return rows


def check_last_offsets(blocks: SortedBlocks) -> None:
    """Check that `last_offsets` points to the last record of each block."""
    for i in range(len(blocks)):
        data, starts = blocks.load(i, i + 1)
        last_record = data[starts[0] + blocks.last_offsets[i] : starts[0] + blocks.sizes[i]].tobytes()
        key_length = int.from_bytes(last_record[:4], "big")
        assert len(last_record) == 8 + key_length + int.from_bytes(last_record[4 + key_length : 8 + key_length], "big")


def rows_as_written(blocks: SortedBlocks) -> list[tuple[bytes, bytes]]:
    return [
        (rows.key(i), rows.data[rows.value_begins[i] : rows.value_ends[i]].tobytes())
        for rows, order in rows_of_blocks(blocks)
        for i in order.tolist()
    ]


@pytest.mark.slow
@given(
    batches,
    st.data(),
    st.sampled_from([1, 40, 200, 1 << 16]),
    st.sampled_from([1, 50, 1 << 16]),
    st.sampled_from([0, 100, 1 << 16]),
)
def test_records_of_every_state_are_in_the_order_of_their_keys(
    batches: list[list[RekeyedRecord]], data: st.DataObject, cell_bytes: int, window_bytes: int, buffered_bytes: int
) -> None:
    expected: dict[int, list[tuple[bytes, bytes]]] = {state: [] for state in range(STATE_COUNT)}
    for rekeyed in (rekeyed for batch in batches for rekeyed in batch):
        expected[rekeyed.record.state].append(
            (prefix(rekeyed.key_group, GROUP_COUNT) + rekeyed.record.key, rekeyed.record.value)
        )
    with (
        patch.object(windows, "CELL_BYTES", cell_bytes),
        patch.object(windows, "WINDOW_BYTES", window_bytes),
        patch.object(block_rows, "ROW_BYTES", 60),
        patch.object(block_buffer, "MOST_BYTES_IN_MEMORY", buffered_bytes),
        BlockBuffer() as buffer,
    ):
        blocks = collect_blocks(data.draw(st.permutations(rows_of(batches))), buffer)
        ordered = in_key_order(blocks.of_range(WHOLE, STATE_COUNT))
        check_last_offsets(ordered)
        for state, rows in expected.items():
            assert rows_as_written(ordered.blocks_of_state(state)) == sorted(rows)


@pytest.mark.parametrize("window_bytes", [30, 45, 48, 50, 51, 57, 60, 75, 100])
def test_loaded_window_of_a_run_may_end_at_a_record_boundary(window_bytes: int) -> None:
    """The run has further records, and the next one precedes the records of the other runs."""
    runs = [[b"", b"\0", b"\0\0", b"\1", b"\2", b"\3", b"\4"], [b"\5"]]
    batches = [[RekeyedRecord(0, Record(0, key, bytes(4) if key == b"\0\0" else b"")) for key in run] for run in runs]
    with (
        patch.object(windows, "CELL_BYTES", 1),
        patch.object(windows, "WINDOW_BYTES", window_bytes),
        BlockBuffer() as buffer,
    ):
        ordered = in_key_order(collect_blocks(rows_of(batches), buffer).of_range(WHOLE, STATE_COUNT))
        keys = [key for key, _ in rows_as_written(ordered.blocks_of_state(0))]
    assert keys == sorted(prefix(0, GROUP_COUNT) + key for run in runs for key in run)


def test_empty_input_gives_no_blocks() -> None:
    with BlockBuffer() as buffer:
        assert len(in_key_order(collect_blocks([], buffer).of_range(WHOLE, STATE_COUNT))) == 0
