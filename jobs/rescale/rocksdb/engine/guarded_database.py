"""A database of Flink, read by RocksDB in a process of its own.

RocksDB checks every block's checksum, and says what is damaged. But it believes what has the right one: for a block
that is larger than its file it asks for as much memory, and an exception that nobody catches ends the process; and it
reads beyond the end of a list of parts that is none. Then the process that asked says which database that was, and
looks for the file: only who forges one makes it so, and to look at all indexes costs a good part of what reading the
rows does.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, Protocol, TypeVar

from rescale.flink.advice import ANOTHER
from rescale.rocksdb.consistency import checked_manifest
from rescale.rocksdb.engine.child import ChildEnded, Talk, talk
from rescale.rocksdb.engine.directory import DatabaseDirectory
from rescale.rocksdb.engine.library import library
from rescale.rocksdb.engine.open_database import OpenDatabase, opened_database
from rescale.rocksdb.engine.shared_arrays import SharedArrays
from rescale.rocksdb.engine.table_check import check_all_blocks
from rescale.rocksdb.stored_files import CURRENT
from rescale.text.advice import SAME_COMMAND, Advice
from rescale.text.errors import RescaleError, SnapshotError, StoreError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_MORE = "more"


class DatabaseReading(Protocol[T_co]):
    """A task of reading a database, which can be pickled; `states` are those whose files it reads."""

    @property
    def states(self) -> Collection[str]: ...

    def read(self, database: OpenDatabase, arrays: SharedArrays) -> Generator[T_co, None, None]: ...


class GuardedDatabase:
    """An open database; nothing that RocksDB meets in it ends this process."""

    def __init__(self, talking: Talk, directory: DatabaseDirectory, states: Collection[str]) -> None:
        self._talk = talking
        self._directory = directory
        self._states = states

    def read(self, reading: DatabaseReading[T]) -> Iterator[T]:
        """Yield the results of `reading`, each of which overwrites the one before; exhaust one reading before the next.

        Raises as `reading` does, `SnapshotError` if the files ended RocksDB's process, and `StoreError` if something
        else ended it.
        """
        request: Any = reading
        while True:
            try:
                answer = self._talk.ask(request)
            except ChildEnded as error:
                raise error_of_ended(error, self._directory, self._states, reading.states) from None
            if answer is None:
                return
            yield answer
            request = _MORE


@contextmanager
def guarded_database(directory: DatabaseDirectory, states: Collection[str]) -> Iterator[GuardedDatabase]:
    """The database in a directory, whose states have these names in the meta stream.

    Raises what `opened_database` raises, and what `GuardedDatabase.read` does for a process that has ended.
    """
    from rescale.rocksdb.engine import row_loop  # compiled, and only tasks have numba

    library()
    row_loop.load()
    states = tuple(states)
    size = sum(file.length for file in directory.files)
    try:
        with talk(_reader, directory, states, size=size) as talking:
            yield GuardedDatabase(talking, directory, states)
    except ChildEnded as error:
        raise error_of_ended(error, directory, states) from None


def _reader(
    arrays: SharedArrays, directory: DatabaseDirectory, states: Collection[str]
) -> Generator[Any, DatabaseReading[Any] | str, None]:
    """In the child: what is wanted comes as a request, and goes as one answer after the other; None is the last."""
    with opened_database(directory, states) as database:
        request = yield None
        while not isinstance(request, str):
            with closing(request.read(database, arrays)) as batches:  # before the database, be it used up or not
                request = yield next(batches, None)
                while request == _MORE:
                    request = yield next(batches, None)


def error_of_ended(
    ended: ChildEnded, directory: DatabaseDirectory, states: Collection[str], read: Collection[str] = ()
) -> RescaleError:
    """With the file that is forged, if it can be told; else with all that may be, which are those of the states `read`.

    `states` are all that the database has; where none are `read`, it may have been any file.
    """
    uris = {file.name: file.uri for file in directory.files}
    path = uris[CURRENT]
    if ended.killed:
        return StoreError(
            "the process in which RocksDB reads a database was ended",
            path=path,
            found=str(ended),
            advice=Advice("look whether the machine has run out of memory, or its disk hangs; then ", SAME_COMMAND),
        )
    try:
        check_all_blocks(directory)
    except RescaleError as error:
        return error
    names = [name for name in uris if name.endswith(".sst")]
    with suppress(RescaleError):
        families = checked_manifest(directory.files, directory.content, states).column_families
        names = [file.name for family in families if family.name in read for file in family.files] or names
    return SnapshotError(
        "RocksDB does not survive reading a file of the database",
        path=uris[names[0]] if len(names) == 1 else path,
        state=next(iter(read)) if len(read) == 1 else None,
        found=f"its process ended by {ended}, reading {' or '.join(names)}",
        advice=ANOTHER,
    )
