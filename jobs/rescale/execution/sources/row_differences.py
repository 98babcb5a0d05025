"""Finds the differences of two sequences of rows that are sorted by key, and makes records of changes.

Compiled loops do the work (`change_loop`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from rescale.flink.arrays import Bytes, Longs
from rescale.flink.keyed.blocks.record_marks import LENGTH_SIZE
from rescale.flink.keyed.blocks.records import Records
from rescale.rocksdb.engine.changes.entries import Entries


class Changes(NamedTuple):
    """Changes of one state since the earlier checkpoint: the rows that were removed and added.

    Both sets of rows are sorted by key; a key whose value has changed is in both. The next `Changes` overwrite these
    rows.
    """

    removed: Records
    added: Records


def differences(before: Iterator[Records], after: Iterator[Records]) -> Iterator[Changes]:
    """Yield the differences of two sequences of rows that are sorted by their keys."""
    from rescale.execution.sources.change_loop import mark_differences

    old, new = next(before, None), next(after, None)
    while old is not None or new is not None:
        removed, added = (np.zeros(0 if side is None else len(side), np.bool_) for side in (old, new))
        compared_counts = mark_differences(
            *_columns_of(old), *_columns_of(new), old is None, new is None, removed, added
        )
        changes = Changes(
            *(
                (_NO_RECORDS if side is None else side.select(slice(row_count)).select(flags[:row_count]))
                for side, row_count, flags in zip((old, new), compared_counts, (removed, added), strict=True)
            )
        )
        if len(changes.removed) or len(changes.added):
            yield changes
        old, new = (
            None
            if side is None
            else side.select(slice(row_count, None))
            if row_count < len(side)
            else next(source, None)
            for side, row_count, source in zip((old, new), compared_counts, (before, after), strict=True)
        )


def change_records(changes: Changes, prefix_length: int) -> Records:
    """Return a record for each key whose row was removed or added: `VALUE` and the new value, or `DELETION`.

    Every key begins with the `prefix_length` bytes of its key group.
    """
    from rescale.execution.sources.change_loop import put_changes

    removed, added = changes
    most_records = len(removed) + len(added)
    most_bytes = sum(int((side.ends - side.key_starts).sum()) + len(side) * (prefix_length + 5) for side in changes)
    data, key_starts, key_ends, ends, groups = columns = _new_columns(most_bytes, most_records)
    record_count = put_changes(
        removed.data,
        removed.key_starts,
        removed.key_ends,
        removed.groups,
        added.data,
        added.key_starts,
        added.key_ends,
        added.ends,
        added.groups,
        prefix_length,
        *columns,
    )
    states = np.full(most_records, (removed if len(removed) else added).state_ids[0])
    end = int(ends[record_count - 1]) if record_count else 0
    return Records(data[:end], key_starts, key_ends, ends, states, groups).select(slice(record_count))


def decided_records(entries: Entries, state_id: int, prefix_length: int) -> Records:
    """Return a record for each entry, a value or a deletion of state `state_id`, as `change_records` does."""
    from rescale.execution.sources.change_loop import put_entries

    record_count = len(entries)
    sizes = entries.key_ends - entries.key_starts + entries.value_ends - entries.value_starts + LENGTH_SIZE + 1
    data, key_starts, key_ends, ends, groups = columns = _new_columns(int(sizes.sum()), record_count)
    put_entries(
        entries.keys,
        entries.key_starts,
        entries.key_ends,
        entries.trailers,
        entries.data,
        entries.value_starts,
        entries.value_ends,
        prefix_length,
        *columns,
    )
    return Records(data, key_starts, key_ends, ends, np.full(record_count, state_id, np.int64), groups)


def _new_columns(size: int, record_count: int) -> tuple[Bytes, Longs, Longs, Longs, Longs]:
    """Return arrays to be filled with `record_count` records: `size` bytes, and starts, key ends, ends and groups."""
    key_starts, key_ends, ends, groups = (np.empty(record_count, np.int64) for _ in range(4))
    return np.empty(size, np.uint8), key_starts, key_ends, ends, groups


_NO_RECORDS = Records(np.empty(0, np.uint8), *(np.empty(0, np.int64) for _ in range(5)))


def _columns_of(records: Records | None) -> tuple[Bytes, Longs, Longs, Longs, Longs]:
    records = _NO_RECORDS if records is None else records
    return (records.data, records.key_starts, records.key_ends, records.ends, records.groups)
