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

        prefix = prefix_size(self.max_parallelism)
        keys = key_range(self.key_groups, self.max_parallelism)
        states = sorted(self.state_ids, key=lambda state: self.state_ids[state])
        with ExitStack() as stack:
            rows = [stack.enter_context(database.rows(state, keys.begin, keys.end)) for state in states]
            iterators = _StateIterators(
                database, arrays, prefix, states, [self.state_ids[state] for state in states], rows
            )
            next_key_groups = [key_group_of_row(iterator.address, prefix, iterators.scratch) for iterator in rows]
            yield from iterators.read(next_key_groups)
            for iterator in rows:
                iterator.check()


class _StateIterators:
    """Iterators, one for each state, that fill the same arrays and continue where they stopped."""

    def __init__(
        self,
        database: OpenDatabase,
        arrays: SharedArrays,
        prefix: int,
        states: list[str],
        ids: list[int],
        rows: list[RowIterator],
    ) -> None:
        self._database, self._arrays, self._prefix = database, arrays, prefix
        self._states, self._ids, self._rows = states, ids, rows
        self._data = arrays.data("data", _BUFFER_SIZE)
        self._columns = [arrays.longs(f"column {i}", _RECORDS_AT_ONCE) for i in range(5)]
        self.scratch = np.zeros(2, np.int64)
        """Scratch space of the compiled loops."""

    def read(self, next_key_groups: list[int]) -> Iterator[FramedRows]:
        """Yield all key groups; `next_key_groups` has the key group of the next row of each state."""
        from rescale.rocksdb.engine.row_loop import NO_ROW, SHORT_KEY, frame_rows

        ids, states, rows = self._ids, self._states, self._rows
        key_starts, key_ends, ends, record_states, record_groups = self._columns
        pieces: list[tuple[int, int, int]] = []
        at = count = 0
        while any(group != NO_ROW for group in next_key_groups):
            key_group = min(group for group in next_key_groups if group != NO_ROW)
            if key_group == SHORT_KEY:
                state = states[next_key_groups.index(SHORT_KEY)]
                raise SnapshotError(
                    "the key of a row is too short for a key group", path=self._database.uri, state=state
                )
            states_with_rows = [number for number, group in enumerate(next_key_groups) if group == key_group]
            for number, next_number in zip(states_with_rows, [*states_with_rows[1:], None], strict=True):
                first_id = ids[number] if number == states_with_rows[0] else -1
                mark = END_OF_GROUP if next_number is None else ids[next_number]
                while next_key_groups[number] == key_group:
                    row_count, size, needed_bytes, next_key_groups[number] = frame_rows(
                        rows[number].address,
                        self._prefix,
                        first_id,
                        mark,
                        self._data[at:],
                        self.scratch,
                        key_starts[count:],
                        key_ends[count:],
                        ends[count:],
                        at,
                    )
                    if row_count:
                        pieces.append((key_group, at, at + size))
                        record_states[count : count + row_count], record_groups[count : count + row_count] = (
                            ids[number],
                            key_group,
                        )
                        at, count, first_id = at + size, count + row_count, -1
                    if needed_bytes and count:
                        yield self._framed_rows(pieces, at, count)
                        pieces, at, count = [], 0, 0
                    elif needed_bytes:
                        self._data = buffer_for_row(needed_bytes, self._arrays, self._database, states[number])
        if count:
            yield self._framed_rows(pieces, at, count)

    def _framed_rows(self, pieces: list[tuple[int, int, int]], size: int, count: int) -> FramedRows:
        data = self._data[:size]
        return FramedRows(
            tuple((key_group, data[begin:end].data) for key_group, begin, end in pieces),
            Records(data, *(column[:count] for column in self._columns)),
        )
