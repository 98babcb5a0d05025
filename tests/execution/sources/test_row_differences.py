"""The differences of two sorted streams of rows, in batches of any size, are the changes between them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from execution.sources.test_change_records import rows_of
from rescale.execution.sources.row_differences import change_records, differences
from rescale.flink.keyed.blocks.records import Records
from rescale.rocksdb.manifest.version_edit import DELETION, VALUE
from support.layers import changes_between

ROWS = st.dictionaries(st.binary(min_size=1, max_size=3), st.binary(max_size=2))


def batches_of(rows: dict[bytes, bytes], batch_size: int) -> Iterator[Records]:
    """Yield the rows as records in batches; the first byte of a key is its key group."""
    ordered = sorted(rows.items())
    for batch_start in range(0, len(ordered), batch_size):
        data, record_fields = bytearray(), []
        for key, value in ordered[batch_start : batch_start + batch_size]:
            start = len(data) + 1
            data += key + len(value).to_bytes(4, "big")
            record_fields.append((start, len(data) - 4, len(data) + len(value), 0, key[0]))
            data += value
        columns = (np.array(column, np.int64) for column in zip(*record_fields, strict=True))
        yield Records(np.frombuffer(bytes(data), np.uint8), *columns)


@given(before=ROWS, after=ROWS, batch_sizes=st.tuples(st.integers(1, 3), st.integers(1, 3)))
def test_differences_of_sorted_rows_are_the_changes(
    before: dict[bytes, bytes], after: dict[bytes, bytes], batch_sizes: tuple[int, int]
) -> None:
    sides = batches_of(before, batch_sizes[0]), batches_of(after, batch_sizes[1])
    records = [row for batch in differences(*sides) for row in rows_of(change_records(batch, 1), prefix=1)]
    changes = changes_between({"": before}, {"": after})[""]
    assert records == [
        (change.key, bytes([DELETION]) if change.after is None else bytes([VALUE]) + change.after) for change in changes
    ]
