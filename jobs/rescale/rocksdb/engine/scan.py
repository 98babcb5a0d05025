"""Read the rows of a database as records: a RocksDB row has the content of a record in a canonical key group.

Only rows in the key groups of the state handle are read. Flink left rows of other key groups behind when it rescaled
the job. Those rows are live in the database of another subtask, and a range tombstone does not always hide them in this
database.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator
from typing import NamedTuple

from rescale.flink.advice import RESCALE_CANONICAL_SAVEPOINT
from rescale.flink.arrays import Bytes, Longs
from rescale.flink.key_groups import KeyGroupRange, prefix_size
from rescale.flink.keyed.blocks.record_marks import LARGEST_RECORD_SIZE
from rescale.flink.keyed.blocks.records import BUFFER_SIZE, RECORDS_AT_ONCE, Records
from rescale.rocksdb.engine.open_database import OpenDatabase
from rescale.rocksdb.engine.shared_arrays import SharedArrays
from rescale.rocksdb.key_range import key_range
from rescale.text.errors import SnapshotError, UnsupportedError


class StateRows(NamedTuple):
    """Request for all live rows of `state` in `key_groups`, in key order, as records with the id `state_id`.

    List elements that were added one by one (merge operands) come as one value. `batch_factor` multiplies the usual
    size of a batch.
    """

    max_parallelism: int
    state: str
    state_id: int
    key_groups: KeyGroupRange
    batch_factor: int = 1

    @property
    def states(self) -> Collection[str]:
        return (self.state,)

    def read(self, database: OpenDatabase, arrays: SharedArrays) -> Generator[Records, None, None]:
        """Yield batches of rows, each valid until the next. Raises `SnapshotError` if RocksDB finds damage."""
        prefix_bytes = prefix_size(self.max_parallelism)
        keys = key_range(self.key_groups, self.max_parallelism)
        state_column = arrays.longs("column 5", self.batch_factor * RECORDS_AT_ONCE)
        state_column[:] = self.state_id
        batches = copied_rows(database, arrays, self.state, keys.begin, keys.end, prefix_bytes, self.batch_factor)
        for data, (key_starts, key_ends, row_ends, key_groups) in batches:
            yield Records(
                data[: row_ends[-1]], key_starts, key_ends, row_ends, state_column[: len(key_starts)], key_groups
            )


class StateSizes(NamedTuple):
    """Request for the total size in bytes of the live SST files of each state, by state name."""

    @property
    def states(self) -> Collection[str]:
        return ()

    def read(self, database: OpenDatabase, arrays: SharedArrays) -> Generator[dict[str, int], None, None]:  # noqa: ARG002
        """Yield the sizes, once; they come from the MANIFEST."""
        yield {family.name: sum(file.size for file in family.files) for family in database.manifest.column_families}


def copied_rows(
    database: OpenDatabase,
    arrays: SharedArrays,
    state: str,
    begin: bytes,
    end: bytes,
    prefix_bytes: int,
    batch_factor: int = 1,
) -> Iterator[tuple[Bytes, list[Longs]]]:
    """Yield the live rows of a state with keys in [begin, end) in batches: their bytes, and the columns of `Records`.

    The columns are the begin and the end of each key, the end of each value, and the key group. The first
    `prefix_bytes` bytes of a row's key are its key group.
    """
    from rescale.rocksdb.engine.row_loop import copy_rows

    data = arrays.data("data", batch_factor * BUFFER_SIZE)
    scratch, *columns = (arrays.longs(f"column {i}", batch_factor * RECORDS_AT_ONCE) for i in range(5))
    with database.rows(state, begin, end) as rows:
        count, needed_bytes = 1, 0
        while count or needed_bytes:
            count, needed_bytes = copy_rows(rows.address, prefix_bytes, data, scratch, *columns)
            if needed_bytes < 0:
                raise SnapshotError("the key of a row is too short for a key group", path=database.uri, state=state)
            if count:
                yield data, [column[:count] for column in columns]
            elif needed_bytes:
                data = buffer_for_row(needed_bytes, arrays, database, state)
        rows.check()


def buffer_for_row(size: int, arrays: SharedArrays, database: OpenDatabase, state: str) -> Bytes:
    """Return a buffer for a row of `size` bytes. Raises `UnsupportedError` if the row is too large."""
    if size > LARGEST_RECORD_SIZE:
        raise UnsupportedError(
            "a row is too large",
            path=database.uri,
            state=state,
            expected=f"at most {LARGEST_RECORD_SIZE} bytes",
            found=f"{size} bytes",
            advice=RESCALE_CANONICAL_SAVEPOINT,
        )
    return arrays.data("data", size)
