"""The RocksDB database of a checkpoint that is compared with another checkpoint (`change_records`).

RocksDB opens it only to look up rows: opening needs the ends of all SST files, even of those in both checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rescale.flink.keyed.blocks.records import Records
from rescale.flink.keyed.header import KeyedHeader, require_header
from rescale.rocksdb.consistency import checked_manifest
from rescale.rocksdb.engine.changes.changed_keys import UnsharedTable
from rescale.rocksdb.engine.changes.keys import Keys
from rescale.rocksdb.engine.directory import DatabaseDirectory, partly_fetched_database
from rescale.rocksdb.engine.guarded_database import GuardedDatabase, guarded_database
from rescale.rocksdb.engine.lookup import KeysOfRange, rows_of_keys
from rescale.rocksdb.engine.partial_files import PartialFiles
from rescale.rocksdb.manifest.manifest import Manifest
from rescale.rocksdb.manifest.version_edit import LiveFile
from rescale.rocksdb.sst.table import SstTable, read_at
from rescale.snapshot.databases.live_tables import listed_files
from rescale.snapshot.places import ChangeSide
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.storage.scratch import scratch_directory


@contextmanager
def compared_database(
    side: ChangeSide[KeyedHeader | None], files: SnapshotFiles, max_parallelism: int
) -> Iterator[ComparedDatabase]:
    """Fetch the database of one checkpoint for the block.

    Of files that the other checkpoint also has, only the needed parts are fetched, and only once rows are looked up.
    """
    stored_files, own_names = listed_files(files, side.database.files), frozenset(side.files_to_read)
    states = require_header(side.database.header).names
    shared_names = [file.name for file in stored_files if file.name.endswith(".sst") and file.name not in own_names]
    with (
        partly_fetched_database(stored_files, Path(scratch_directory()), partial_names=shared_names) as (
            directory,
            parts,
        ),
        ExitStack() as stack,
    ):
        manifest = checked_manifest(directory.files, directory.content, states)
        yield ComparedDatabase(directory, parts, manifest, stack, frozenset(states), own_names, max_parallelism)


@dataclass(frozen=True)
class ComparedDatabase:
    """The database of one checkpoint; `own_names` are the names of the files that the other checkpoint does not have.

    `cleanup` closes the database that `rows` opens.
    """

    directory: DatabaseDirectory
    parts: PartialFiles
    manifest: Manifest
    cleanup: ExitStack
    states: frozenset[str]
    own_names: frozenset[str]
    max_parallelism: int

    @cached_property
    def _database(self) -> GuardedDatabase:
        self.parts.begin()
        return self.cleanup.enter_context(guarded_database(self.directory, self.states))

    def rows(self, state: str, state_id: int, keys: Keys, deepest_level: int | None = None) -> Iterator[Records]:
        """Yield the live row of each key that has one.

        `deepest_level` is a level at which, or above which, each key has a value or a deletion; None if unknown.
        RocksDB reads no deeper level.
        """
        database = self._database
        files = [file for file in self.live_files(state) if deepest_level is None or file.level <= deepest_level]
        self.parts.fetch(files, keys)
        yield from database.read(rows_of_keys(self.max_parallelism, state, state_id, keys))

    @property
    def last_sequence(self) -> int:
        """Upper bound of the sequence numbers in the database."""
        return max([self.manifest.last_sequence, *(file.largest_sequence for file in self.manifest.files.values())])

    def live_files(self, state: str) -> Sequence[LiveFile]:
        """Return the SST files of a state."""
        return next((family.files for family in self.manifest.column_families if family.name == state), ())

    def unshared_tables(self, state: str) -> list[UnsharedTable]:
        """Return the SST files of a state that only this database has."""
        path, files = self.directory.path, {file.name: file for file in self.directory.files}
        own_files = [(live, files[live.name]) for live in self.live_files(state) if live.name in self.own_names]
        return [
            UnsharedTable(live, SstTable(_file_reader(path / live.name), file.length, file.uri))
            for live, file in own_files
        ]

    def keys_of_ranges(self, state: str, ranges: Sequence[tuple[bytes, bytes]]) -> Iterator[bytes]:
        """Yield the keys of all live rows in the given ranges, which are sorted and disjoint.

        Opens a second database, since callers look up rows in the first one while they iterate.
        """
        self.parts.begin()
        self.parts.fetch_all([file.name for file in self.live_files(state)])
        with guarded_database(self.directory, self.states) as database:
            for begin, end in ranges:
                for keys in database.read(KeysOfRange(state, begin, end)):
                    yield from keys


def _file_reader(path: Path) -> Callable[[int, int], bytes]:
    """Return a reader that opens the file for each read: there may be more files than a process may have open."""

    def read(start: int, size: int) -> bytes:
        with path.open("rb") as file:
            return read_at(file.fileno(), start, size)

    return read
