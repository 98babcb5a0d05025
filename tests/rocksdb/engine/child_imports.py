"""Print the modules that are first imported in a child process, while it opens and reads a database in all ways.

A child waits for ever if it is forked while another thread imports such a module. Argument: a committed snapshot.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from rescale.rocksdb.engine import guarded_database
from rescale.rocksdb.engine.changes.keys import Keys
from rescale.rocksdb.engine.directory import DatabaseDirectory, fetched_database
from rescale.rocksdb.engine.framed_rows import KeyGroupRows
from rescale.rocksdb.engine.lookup import KeysOfRange, rows_of_keys
from rescale.rocksdb.engine.scan import StateRows, StateSizes
from rescale.text.errors import RescaleError
from support.databases import Stored, databases

real_reader = guarded_database._reader


def watched_reader(*arguments: Any) -> Generator[Any, Any, None]:
    """Read as `guarded_database` does, and print the modules that this process has imported meanwhile."""
    before, task, request = set(sys.modules), real_reader(*arguments), None
    try:
        while True:
            request = yield task.send(request)
    except StopIteration:
        return
    finally:
        task.close()
        print(*(set(sys.modules) - before))


def read(flink_database: Stored, directory: DatabaseDirectory) -> None:
    """Read the rows of a database in all ways in which tasks read them, then open it with a wrong state name."""
    max_parallelism, groups = flink_database.max_parallelism, flink_database.key_groups
    ids = {state: i for i, state in enumerate(flink_database.states)}
    with guarded_database.guarded_database(directory, flink_database.states) as database:
        assert next(iter(database.read(StateSizes())))
        keys: list[bytes] = []
        for state, i in ids.items():
            for _ in database.read(StateRows(max_parallelism, state, i, groups)):
                pass
            keys = [key for batch in database.read(KeysOfRange(state, b"", b"\xff" * 8)) for key in batch]
            ends = np.cumsum([len(key) for key in keys])
            wanted_keys = Keys(np.frombuffer(b"".join(keys), np.uint8), ends)
            assert sum(
                len(rows.key_starts) for rows in database.read(rows_of_keys(max_parallelism, state, i, wanted_keys))
            ) == len(keys)
        assert list(database.read(KeyGroupRows(max_parallelism, ids, groups)))
    with suppress(RescaleError), guarded_database.guarded_database(directory, ["no such state"]):
        pass


if __name__ == "__main__":
    guarded_database._reader = watched_reader
    flink_database = databases(sys.argv[1])[0]
    with TemporaryDirectory() as scratch, fetched_database(flink_database.files, Path(scratch)) as directory:
        read(flink_database, directory)
