"""The rows of a database as the records that they are: a row of RocksDB is a record of a canonical key group.

Rows are bounded by the key groups that the handle speaks for. What lies outside was left behind when Flink rescaled
the job, and is alive in another handle; only sometimes does a tombstone hide it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rescale.errors import SnapshotError, UnsupportedError
from rescale.flink.advice import CANONICAL
from rescale.flink.arrays import Bytes
from rescale.flink.key_groups import KeyGroupRange, prefix_size
from rescale.flink.keyed.blocks.record_marks import LARGEST_RECORD
from rescale.flink.keyed.blocks.records import BUFFER_SIZE, RECORDS_AT_ONCE, Records
from rescale.rocksdb.engine.open_database import OpenDatabase


class RowReader:
    """Reads rows in batches of `times` the usual size. Reuse its buffers for many states and databases."""

    def __init__(self, max_parallelism: int, *, times: int = 1) -> None:
        self._prefix = prefix_size(max_parallelism)
        self._buffer = np.empty(times * BUFFER_SIZE, np.uint8)
        self._length = np.empty(1, np.int64)
        self._columns = [np.empty(times * RECORDS_AT_ONCE, np.int64) for _ in range(4)]
        self._states = np.empty(times * RECORDS_AT_ONCE, np.int64)

    def read(self, database: OpenDatabase, state: str, state_id: int, key_groups: KeyGroupRange) -> Iterator[Records]:
        """All rows of `state` in these key groups, in the order of their keys; the records have the id `state_id`.

        Lists come out joined, what was deleted does not. `SnapshotError` where RocksDB meets damage: what came before
        is then not all. A batch is overwritten by the next one.
        """
        from rescale.rocksdb.engine.row_loop import copy_rows

        self._states[:] = state_id
        begin = key_groups.first.to_bytes(self._prefix, "big")
        end = (key_groups.last + 1).to_bytes(self._prefix, "big")
        with database.rows(state, begin, end) as rows:
            count, needs = 1, 0
            while count or needs:
                count, needs = copy_rows(rows.address, self._prefix, self._buffer, self._length, *self._columns)
                if needs < 0:
                    raise SnapshotError("a row without a key group", path=database.uri, state=state)
                if count:
                    starts, limits, ends, groups = (column[:count] for column in self._columns)
                    yield Records(self._buffer[: ends[-1]], starts, limits, ends, self._states[:count], groups)
                elif needs:
                    self._buffer = buffer_for_row(needs, database, state)
            rows.check()


def buffer_for_row(size: int, database: OpenDatabase, state: str) -> Bytes:
    """A buffer that a row fits in; `UnsupportedError` if that is too large."""
    if size > LARGEST_RECORD:
        raise UnsupportedError(
            "a row is larger than can be moved",
            path=database.uri,
            state=state,
            expected=f"at most {LARGEST_RECORD} bytes",
            found=f"{size} bytes",
            advice=CANONICAL,
        )
    return np.empty(size, np.uint8)
