"""Read a database as canonical key groups: the rows of all its states, key group by key group.

RocksDB holds the rows of each state in a column family of their own, in the order of their key groups. A canonical key
group has the rows of all states (`FullSnapshotAsyncWriter`). So one iterator for each state stays open, and
continues where it stopped in the previous key group.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np

from rescale.flink.key_groups import KeyGroupRange, prefix_size
from rescale.flink.keyed.blocks.record_marks import END_OF_GROUP
from rescale.flink.keyed.blocks.records import Records
from rescale.rocksdb.engine.open_database import OpenDatabase, RowIterator
from rescale.rocksdb.engine.scan import buffer_for_row
from rescale.rocksdb.engine.shared_arrays import SharedArrays
from rescale.rocksdb.key_range import key_range
from rescale.text.errors import SnapshotError

_BUFFER_SIZE = 8 * 1024 * 1024
_RECORDS_AT_ONCE = 1 << 16


class FramedRows(NamedTuple):
    """Key groups in canonical framing, valid until the next result; the first and the last may be parts of a key group.

    `pieces` are (key group, bytes) pairs in order, and `records` are the records in them.
    """

    pieces: tuple[tuple[int, memoryview], ...]
    records: Records


class KeyGroupRows(NamedTuple):
    """Request for all live rows in `key_groups`, in canonical framing.

    `state_ids` maps the names of the states to their ids, which order the states in a key group. List elements that
    were added one by one (merge operands) come as one value.
    """

    max_parallelism: int
    state_ids: Mapping[str, int]
    key_groups: KeyGroupRange

    @property
    def states(self) -> Collection[str]:
        return self.state_ids

    def read(self, database: OpenDatabase, arrays: SharedArrays) -> Generator[FramedRows, None, None]:
        """Yield key groups in order. Raises `SnapshotError` if RocksDB finds damage."""
        from rescale.rocksdb.engine.row_loop import key_group_of_row

        prefix_bytes = prefix_size(self.max_parallelism)
        keys = key_range(self.key_groups, self.max_parallelism)
        states = sorted(self.state_ids, key=lambda state: self.state_ids[state])
        with ExitStack() as stack:
            row_iterators = [stack.enter_context(database.rows(state, keys.begin, keys.end)) for state in states]
            state_iterators = _StateIterators(
                database, arrays, prefix_bytes, states, [self.state_ids[state] for state in states], row_iterators
            )
            next_key_groups = [
                key_group_of_row(iterator.address, prefix_bytes, state_iterators.scratch) for iterator in row_iterators
            ]
            yield from state_iterators.read(next_key_groups)
            for iterator in row_iterators:
                iterator.check()


class _StateIterators:
    """Iterators, one for each state, that fill the same arrays and continue where they stopped."""

    def __init__(
        self,
        database: OpenDatabase,
        arrays: SharedArrays,
        prefix_bytes: int,
        states: list[str],
        state_ids: list[int],
        row_iterators: list[RowIterator],
    ) -> None:
        self._database, self._arrays, self._prefix_bytes = database, arrays, prefix_bytes
        self._states, self._state_ids, self._row_iterators = states, state_ids, row_iterators
        self._data = arrays.data("data", _BUFFER_SIZE)
        self._columns = [arrays.longs(f"column {i}", _RECORDS_AT_ONCE) for i in range(5)]
        self.scratch = np.zeros(2, np.int64)
        """Scratch space of the compiled loops."""

    def read(self, next_key_groups: list[int]) -> Iterator[FramedRows]:
        """Yield all key groups; `next_key_groups` has the key group of the next row of each state."""
        from rescale.rocksdb.engine.row_loop import NO_ROW, SHORT_KEY, frame_rows

        state_ids, states, row_iterators = self._state_ids, self._states, self._row_iterators
        key_starts, key_ends, row_ends, record_states, record_key_groups = self._columns
        pieces: list[tuple[int, int, int]] = []
        at = record_count = 0
        while any(next_key_group != NO_ROW for next_key_group in next_key_groups):
            key_group = min(next_key_group for next_key_group in next_key_groups if next_key_group != NO_ROW)
            if key_group == SHORT_KEY:
                state = states[next_key_groups.index(SHORT_KEY)]
                raise SnapshotError(
                    "the key of a row is too short for a key group", path=self._database.uri, state=state
                )
            indices_with_rows = [
                state_index for state_index, next_key_group in enumerate(next_key_groups) if next_key_group == key_group
            ]
            for state_index, next_state_index in zip(indices_with_rows, [*indices_with_rows[1:], None], strict=True):
                first_id = state_ids[state_index] if state_index == indices_with_rows[0] else -1
                end_mark = END_OF_GROUP if next_state_index is None else state_ids[next_state_index]
                while next_key_groups[state_index] == key_group:
                    row_count, size, needed_bytes, next_key_groups[state_index] = frame_rows(
                        row_iterators[state_index].address,
                        self._prefix_bytes,
                        first_id,
                        end_mark,
                        self._data[at:],
                        self.scratch,
                        key_starts[record_count:],
                        key_ends[record_count:],
                        row_ends[record_count:],
                        at,
                    )
                    if row_count:
                        pieces.append((key_group, at, at + size))
                        new_records = slice(record_count, record_count + row_count)
                        record_states[new_records], record_key_groups[new_records] = state_ids[state_index], key_group
                        at, record_count, first_id = at + size, record_count + row_count, -1
                    if needed_bytes and record_count:
                        yield self._framed_rows(pieces, at, record_count)
                        pieces, at, record_count = [], 0, 0
                    elif needed_bytes:
                        self._data = buffer_for_row(needed_bytes, self._arrays, self._database, states[state_index])
        if record_count:
            yield self._framed_rows(pieces, at, record_count)

    def _framed_rows(self, pieces: list[tuple[int, int, int]], size: int, record_count: int) -> FramedRows:
        data = self._data[:size]
        return FramedRows(
            tuple((key_group, data[begin:end].data) for key_group, begin, end in pieces),
            Records(data, *(column[:record_count] for column in self._columns)),
        )
