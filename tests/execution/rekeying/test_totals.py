"""Totals of all map tasks: sizes of key groups to the byte, and the one error that is reported."""

from __future__ import annotations

from functools import partial

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rescale.execution.rekeying.totals import SentSizes, pack_sent_sizes, sum_sent_sizes
from rescale.execution.writers.canonical.block_framing import framed_lengths
from rescale.text.errors import IntegrityError, RescaleError, SnapshotError
from support.blocks import RekeyedRecord, block, by_cell, regrouped
from support.canonical import Record

MAX_PARALLELISM, STATE_COUNT = 200, 3
rekeyed_records = st.builds(
    RekeyedRecord,
    st.integers(0, MAX_PARALLELISM - 1),
    st.builds(Record, st.integers(0, STATE_COUNT - 1), st.binary(max_size=5), st.binary(max_size=9)),
)


def sent_sizes(operator_index: int, records: list[RekeyedRecord]) -> bytes:
    cells = by_cell(records, STATE_COUNT)
    sizes = [len(block(cell_records, MAX_PARALLELISM)) for cell_records in cells.values()]
    return pack_sent_sizes(SentSizes(operator_index, np.array(list(cells), np.int64), np.array(sizes, np.int64)))


sum_up = partial(sum_sent_sizes, shape_by_operator=dict.fromkeys((0, 4), (MAX_PARALLELISM, STATE_COUNT)))


@given(st.lists(st.tuples(st.sampled_from([0, 4]), st.lists(rekeyed_records, max_size=9)), max_size=6))
def test_totals_are_the_lengths_of_framed_key_groups(units: list[tuple[int, list[RekeyedRecord]]]) -> None:
    totals = sum_up(sent_sizes(*unit) for unit in units)
    assert not isinstance(totals, RescaleError)
    assert set(totals) == {0, 4}
    for operator_index, total in totals.items():
        operator_records = [
            record for unit_operator, records in units if unit_operator == operator_index for record in records
        ]
        lengths = {group: len(data) for group, data in regrouped(operator_records, MAX_PARALLELISM).items()}
        assert framed_lengths(total).tolist() == [lengths.get(group, 0) for group in range(MAX_PARALLELISM)]


def test_most_severe_error_is_reported_whatever_the_order() -> None:
    snapshot_error, integrity_error = SnapshotError("broken", path="/b", offset=7), IntegrityError("another", state="s")
    for order in ([snapshot_error, integrity_error], [integrity_error, snapshot_error]):
        reported = sum_up([sent_sizes(0, []), *map(pack_sent_sizes, order)])
        assert isinstance(reported, IntegrityError)
        assert reported.document() == integrity_error.document()
