"""What a task would find in RocksDB directories, seen before anything is written: from their small files alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from rescale.errors import RescaleError, UnsupportedError
from rescale.planning.snapshot import Database, Operator, Snapshot
from rescale.rocksdb.advice import CANONICAL
from rescale.rocksdb.files import DatabaseFile, needed_files
from rescale.rocksdb.inventory import take_inventory
from rescale.storage.store import open_store

_AT_ONCE = 32


def check_databases(snapshot: Snapshot) -> None:
    """Raises what stands against reading the rows of a database, naming its operator: see `take_inventory`."""
    found = [(operator, database) for operator in snapshot.operators for database in operator.databases]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(lambda one: _check(snapshot, *one), found):
            pass


def _check(snapshot: Snapshot, operator: Operator, database: Database) -> None:
    def content(file: DatabaseFile) -> bytes:
        if file.uri == snapshot.metadata_uri:
            return snapshot.data[file.start : file.start + file.length]
        return open_store(file.uri).read(file.uri, file.start, file.length, file.pin)

    files = []
    for name, (number, start, length) in database.files:
        uri, pin = snapshot.files[number]
        files.append(DatabaseFile(name, uri, length, start, pin))
    try:
        if database.parsed is None:
            raise UnsupportedError("a serializer is not known that hides the names of the states", advice=CANONICAL)
        take_inventory(needed_files(files), content, [state.name for state in database.parsed.states])
    except RescaleError as error:
        raise error.located(operator=operator.label) from None
