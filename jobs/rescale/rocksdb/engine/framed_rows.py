"""A database as canonical key groups: the rows of all its states, key group by key group.

RocksDB keeps a state's rows in the order of their key groups, each state apart; `FullSnapshotAsyncWriter` writes all
states of a key group together. So the states are read side by side, each from where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np

from rescale.errors import SnapshotError
from rescale.flink.key_groups import KeyGroupRange, prefix_size
from rescale.flink.keyed.blocks.record_marks import END_OF_GROUP
from rescale.flink.keyed.blocks.records import Records
from rescale.rocksdb.engine.open_database import OpenDatabase, RowIterator
from rescale.rocksdb.engine.scan import buffer_for_row

_BUFFER_SIZE = 8 * 1024 * 1024
_RECORDS_AT_ONCE = 1 << 16


class FramedRows(NamedTuple):
    """Key groups in canonical framing, the first and the last of them perhaps in part; overwritten by the next one.

    `pieces` are (key group, bytes) in order. `records` are those that lie in them.
    """

    pieces: tuple[tuple[int, memoryview], ...]
    records: Records


class KeyGroupReader:
    """Reads databases as canonical key groups; its buffers are used again for the next one."""

    def __init__(self, max_parallelism: int) -> None:
        self._prefix = prefix_size(max_parallelism)
        self._data = np.empty(_BUFFER_SIZE, np.uint8)
        self._columns = [np.empty(_RECORDS_AT_ONCE, np.int64) for _ in range(5)]
        self._found = np.zeros(2, np.int64)

    def read(self, database: OpenDatabase, ids: Mapping[str, int], key_groups: KeyGroupRange) -> Iterator[FramedRows]:
        """All rows in these key groups, of the states that have `ids`, in the order of the ids.

        Lists come out joined, what was deleted does not. `SnapshotError` where RocksDB meets damage: what came before
        is then not all.
        """
        from rescale.rocksdb.engine.row_loop import key_group_of_row

        begin = key_groups.first.to_bytes(self._prefix, "big")
        end = (key_groups.last + 1).to_bytes(self._prefix, "big")
        states = sorted(ids, key=lambda state: ids[state])
        with ExitStack() as stack:
            rows = [stack.enter_context(database.rows(state, begin, end)) for state in states]
            upcoming = [key_group_of_row(one.address, self._prefix, self._found) for one in rows]
            yield from self._windows(database, [ids[state] for state in states], states, rows, upcoming)
            for one in rows:
                one.check()

    def _windows(
        self, database: OpenDatabase, ids: list[int], states: list[str], rows: list[RowIterator], upcoming: list[int]
    ) -> Iterator[FramedRows]:
        from rescale.rocksdb.engine.row_loop import NO_ROW, SHORT_KEY, frame_rows

        starts, limits, ends, in_state, in_group = self._columns
        pieces: list[tuple[int, int, int]] = []
        at = count = 0
        while any(group != NO_ROW for group in upcoming):
            key_group = min(group for group in upcoming if group != NO_ROW)
            if key_group == SHORT_KEY:
                state = states[upcoming.index(SHORT_KEY)]
                raise SnapshotError("a row without a key group", path=database.uri, state=state)
            present = [number for number, group in enumerate(upcoming) if group == key_group]
            for number, following in zip(present, [*present[1:], None], strict=True):
                first_id = ids[number] if number == present[0] else -1
                mark = END_OF_GROUP if following is None else ids[following]
                while upcoming[number] == key_group:
                    more, size, needs, upcoming[number] = frame_rows(
                        rows[number].address,
                        self._prefix,
                        first_id,
                        mark,
                        self._data[at:],
                        self._found,
                        starts[count:],
                        limits[count:],
                        ends[count:],
                        at,
                    )
                    if more:
                        pieces.append((key_group, at, at + size))
                        in_state[count : count + more], in_group[count : count + more] = ids[number], key_group
                        at, count, first_id = at + size, count + more, -1
                    if needs and count:
                        yield self._window(pieces, at, count)
                        pieces, at, count = [], 0, 0
                    elif needs:
                        self._data = buffer_for_row(needs, database, states[number])
        if count:
            yield self._window(pieces, at, count)

    def _window(self, pieces: list[tuple[int, int, int]], size: int, count: int) -> FramedRows:
        data = self._data[:size]
        return FramedRows(
            tuple((key_group, data[first:last].data) for key_group, first, last in pieces),
            Records(data, *(column[:count] for column in self._columns)),
        )
