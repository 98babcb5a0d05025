"""A Flink database that RocksDB reads in a child process.

RocksDB verifies the checksum of every block and reports damage. But it trusts a block whose checksum is right. A forged
index entry for a block larger than the file makes RocksDB allocate that much memory and abort. A forged list of index
partitions makes it read out of bounds. Such a crash ends only the child. The parent searches the indexes of the
database for the forged file only after a crash, because the search takes a large part of the time of a whole read.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, Protocol, TypeVar

from rescale.flink.advice import TAKE_ANOTHER_SNAPSHOT
from rescale.rocksdb.consistency import checked_manifest
from rescale.rocksdb.engine.child import ChildEnded, Conversation, conversation
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

_NEXT_RESULT = "more"


class DatabaseReading(Protocol[T_co]):
    """Picklable request to read an open database in the child; `states` are the states whose files it reads."""

    @property
    def states(self) -> Collection[str]: ...

    def read(self, database: OpenDatabase, arrays: SharedArrays) -> Generator[T_co, None, None]: ...


class GuardedDatabase:
    """A database that is open in a child process, so that files that crash RocksDB do not end this process."""

    def __init__(self, conversation: Conversation, directory: DatabaseDirectory, states: Collection[str]) -> None:
        self._conversation = conversation
        self._directory = directory
        self._states = states

    def read(self, reading: DatabaseReading[T]) -> Iterator[T]:
        """Yield the results of `reading`, each valid until the next one. Read all of them before the next call.

        Raises the errors of `reading`, `SnapshotError` if the files crashed the child, and `StoreError` if the child
        ended for another reason.
        """
        request: Any = reading
        while True:
            try:
                answer = self._conversation.ask(request)
            except ChildEnded as error:
                raise ended_child_error(error, self._directory, self._states, reading.states) from None
            if answer is None:
                return
            yield answer
            request = _NEXT_RESULT


@contextmanager
def guarded_database(directory: DatabaseDirectory, states: Collection[str]) -> Iterator[GuardedDatabase]:
    """Provide the database in a directory, open in a child process; `states` are its state names in the meta stream.

    Raises the errors of `opened_database`, and those of `GuardedDatabase.read` if the child ends.
    """
    from rescale.rocksdb.engine import row_loop  # imported late: it needs numba, which only tasks have

    library()
    row_loop.compile_loops()
    states = tuple(states)
    database_bytes = sum(file.length for file in directory.files)
    try:
        with conversation(_reader, directory, states, size=database_bytes) as reader_conversation:
            yield GuardedDatabase(reader_conversation, directory, states)
    except ChildEnded as error:
        raise ended_child_error(error, directory, states) from None


def _reader(
    arrays: SharedArrays, directory: DatabaseDirectory, states: Collection[str]
) -> Generator[Any, DatabaseReading[Any] | str, None]:
    """Serve requests in the child: yield each result of a request, and None after its last result."""
    with opened_database(directory, states) as database:
        request = yield None
        while not isinstance(request, str):
            # The iterators of the request must be closed before the database.
            with closing(request.read(database, arrays)) as batches:
                request = yield next(batches, None)
                while request == _NEXT_RESULT:
                    request = yield next(batches, None)


def ended_child_error(
    ended: ChildEnded, directory: DatabaseDirectory, states: Collection[str], states_read: Collection[str] = ()
) -> RescaleError:
    """Return the error for a child that ended; it names the forged file if a search finds one, else all candidates.

    `states` are all states of the database. The candidates are the files of `states_read`; all files if it is empty.
    """
    uri_by_name = {file.name: file.uri for file in directory.files}
    path = uri_by_name[CURRENT]
    if ended.was_killed:
        return StoreError(
            "the process in which RocksDB reads a database was killed",
            path=path,
            found=str(ended),
            advice=Advice("check whether the machine has run out of memory, or its disk hangs; then ", SAME_COMMAND),
        )
    try:
        check_all_blocks(directory)
    except RescaleError as error:
        return error
    table_names = [name for name in uri_by_name if name.endswith(".sst")]
    with suppress(RescaleError):
        families = checked_manifest(directory.files, directory.content, states).column_families
        table_names = [
            file.name for family in families if family.name in states_read for file in family.files
        ] or table_names
    return SnapshotError(
        "RocksDB crashed while reading a file of the database",
        path=uri_by_name[table_names[0]] if len(table_names) == 1 else path,
        state=next(iter(states_read)) if len(states_read) == 1 else None,
        found=f"its process ended with {ended} while reading {' or '.join(table_names)}",
        advice=TAKE_ANOTHER_SNAPSHOT,
    )
