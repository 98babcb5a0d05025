"""The rows of a database as the records that they are: a row of RocksDB is a record of a canonical key group.

Rows are bounded by the key groups that the handle speaks for. What lies outside was left behind when Flink rescaled
the job, and is alive in another handle; only sometimes does a tombstone hide it.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from typing import NamedTuple

from rescale.flink.advice import CANONICAL
from rescale.flink.arrays import Bytes
from rescale.flink.key_groups import KeyGroupRange, prefix_size
from rescale.flink.keyed.blocks.record_marks import LARGEST_RECORD
from rescale.flink.keyed.blocks.records import BUFFER_SIZE, RECORDS_AT_ONCE, Records
from rescale.rocksdb.engine.open_database import OpenDatabase
from rescale.rocksdb.engine.shared_arrays import SharedArrays
from rescale.text.errors import SnapshotError, UnsupportedError


class StateRows(NamedTuple):
    """All rows of `state` in these key groups, in the order of their keys; the records have the id `state_id`.

    Lists come out joined, what was deleted does not. Batches have `times` the usual size.
    """

    max_parallelism: int
    state: str
    state_id: int
    key_groups: KeyGroupRange
    times: int = 1

    @property
    def states(self) -> Collection[str]:
        return (self.state,)

    def read(self, database: OpenDatabase, arrays: SharedArrays) -> Generator[Records, None, None]:
        """`SnapshotError` where RocksDB meets damage: what came before is then not all.

        A batch is overwritten by the next one.
        """
        from rescale.rocksdb.engine.row_loop import copy_rows

        prefix, number = prefix_size(self.max_parallelism), self.times * RECORDS_AT_ONCE
        data = arrays.data("data", self.times * BUFFER_SIZE)
        length, *columns = (arrays.longs(f"column {i}", number) for i in range(5))
        states = arrays.longs("column 5", number)
        states[:] = self.state_id
        begin = self.key_groups.first.to_bytes(prefix, "big")
        end = (self.key_groups.last + 1).to_bytes(prefix, "big")
        with database.rows(self.state, begin, end) as rows:
            count, needs = 1, 0
            while count or needs:
                count, needs = copy_rows(rows.address, prefix, data, length, *columns)
                if needs < 0:
                    raise SnapshotError("a row without a key group", path=database.uri, state=self.state)
                if count:
                    starts, limits, ends, groups = (column[:count] for column in columns)
                    yield Records(data[: ends[-1]], starts, limits, ends, states[:count], groups)
                elif needs:
                    data = buffer_for_row(needs, arrays, database, self.state)
            rows.check()


def buffer_for_row(size: int, arrays: SharedArrays, database: OpenDatabase, state: str) -> Bytes:
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
    return arrays.data("data", size)
