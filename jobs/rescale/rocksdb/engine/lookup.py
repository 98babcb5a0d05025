"""Looks up single keys in a database: returns the values that a job would read for them."""

from __future__ import annotations

from collections.abc import Collection, Generator
from typing import NamedTuple

import numpy as np

from rescale.flink.key_groups import prefix_size
from rescale.flink.keyed.blocks.records import BUFFER_SIZE, RECORDS_AT_ONCE, Records
from rescale.rocksdb.engine.changes.keys import Keys
from rescale.rocksdb.engine.open_database import OpenDatabase
from rescale.rocksdb.engine.scan import buffer_for_row, copied_rows
from rescale.rocksdb.engine.shared_arrays import SharedArrays


class RowsOfKeys(NamedTuple):
    """Request for the live rows of `state` with one of the `keys`, in key order, as records with the id `state_id`.

    `keys` are the keys end to end, and `key_lengths` their lengths as bytes of int64 numbers, so that pickling the
    request is fast. List elements that were added one by one (merge operands) come as one value.
    """

    max_parallelism: int
    state: str
    state_id: int
    keys: bytes
    key_lengths: bytes

    @property
    def states(self) -> Collection[str]:
        return (self.state,)

    def read(self, database: OpenDatabase, arrays: SharedArrays) -> Generator[Records, None, None]:
        """Yield batches of rows, each valid until the next. Raises `SnapshotError` if RocksDB finds damage."""
        from rescale.rocksdb.engine.row_loop import find_rows

        searched_ends = np.cumsum(np.frombuffer(self.key_lengths, np.int64))
        prefix_bytes = prefix_size(self.max_parallelism)
        data = arrays.data("data", BUFFER_SIZE)
        columns = [arrays.longs(f"column {i}", RECORDS_AT_ONCE) for i in range(4)]
        state_column = arrays.longs("column 4", RECORDS_AT_ONCE)
        state_column[:] = self.state_id
        keys, scratch = np.frombuffer(bytearray(self.keys), np.uint8), np.zeros(2, np.int64)
        next_key = 0
        with database.lookup(self.state) as lookup:
            while next_key < len(searched_ends):
                count, next_key, needed_bytes = find_rows(
                    *lookup.addresses, keys, searched_ends, next_key, prefix_bytes, data, scratch, *columns
                )
                lookup.check(int(scratch[1]))
                if count:
                    key_starts, key_ends, row_ends, key_groups = (column[:count] for column in columns)
                    yield Records(
                        data[: row_ends[-1]], key_starts, key_ends, row_ends, state_column[:count], key_groups
                    )
                elif needed_bytes:
                    data = buffer_for_row(needed_bytes, arrays, database, self.state)


def rows_of_keys(max_parallelism: int, state: str, state_id: int, keys: Keys) -> RowsOfKeys:
    """Return the request for `keys`, which must be sorted and distinct, and begin with their key groups."""
    key_lengths = np.diff(keys.ends, prepend=0).tobytes()
    return RowsOfKeys(max_parallelism, state, state_id, keys.data.tobytes(), key_lengths)


class KeysOfRange(NamedTuple):
    """Request for the keys of all live rows of `state` in [begin, end), in order."""

    state: str
    begin: bytes
    end: bytes

    @property
    def states(self) -> Collection[str]:
        return (self.state,)

    def read(self, database: OpenDatabase, arrays: SharedArrays) -> Generator[list[bytes], None, None]:
        """Yield batches of keys. Raises `SnapshotError` if RocksDB finds damage."""
        prefix_bytes = 1  # any length of the prefix serves here, because keys are returned whole
        for data, columns in copied_rows(database, arrays, self.state, self.begin, self.end, prefix_bytes):
            key_starts, key_ends = columns[0].tolist(), columns[1].tolist()
            yield [
                data[key_start - prefix_bytes : key_end].tobytes()
                for key_start, key_end in zip(key_starts, key_ends, strict=True)
            ]
