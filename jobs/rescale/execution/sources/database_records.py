"""Records of a RocksDB directory, which is fetched to the local scratch directory and read there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rescale.flink.key_groups import KeyGroupRange
from rescale.flink.keyed.blocks.records import Records
from rescale.flink.keyed.header import KeyedHeader
from rescale.rocksdb.engine.directory import fetched_database
from rescale.rocksdb.engine.guarded_database import GuardedDatabase, guarded_database
from rescale.rocksdb.engine.scan import StateRows, StateSizes
from rescale.snapshot.databases.live_tables import listed_files
from rescale.snapshot.locate import Extent
from rescale.snapshot.read_counter import count_read_bytes
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.storage.scratch import scratch_directory


@dataclass(frozen=True)
class DatabaseRecords:
    """Reads all rows in the given key groups of a RocksDB directory, state by state in the order of its header.

    `file_extents` has the directory's files, as (name, extent in `files`). `batch_factor` multiplies the usual size of
    a batch.
    """

    max_parallelism: int
    files: SnapshotFiles
    file_extents: Sequence[tuple[str, Extent]]
    header: KeyedHeader
    key_groups: KeyGroupRange
    batch_factor: int

    def __iter__(self) -> Iterator[Records]:
        for records in self.in_ranges([self.key_groups]):
            yield from records

    def in_ranges(self, ranges: Iterable[KeyGroupRange]) -> Iterator[Iterator[Records]]:
        """Yield, for each range of key groups, an iterator over its rows, to be exhausted before the next range."""
        with database_of_snapshot(self.files, self.file_extents, self.header) as database:
            for key_groups in ranges:
                yield self._rows(database, key_groups.intersection(self.key_groups))

    def _rows(self, database: GuardedDatabase, key_groups: KeyGroupRange) -> Iterator[Records]:
        if not len(key_groups):
            return
        (sizes,) = database.read(StateSizes())
        for state_id, state in enumerate(self.header.states):
            rows_request = StateRows(self.max_parallelism, state.name, state_id, key_groups, self.batch_factor)
            expected_bytes, counted_bytes = sizes[state.name] * len(key_groups) // len(self.key_groups), 0
            for records in database.read(rows_request):
                yield records
                passed_bytes = expected_bytes * (int(records.groups[-1]) - key_groups.first) // len(key_groups)
                count_read_bytes(passed_bytes - counted_bytes)
                counted_bytes = passed_bytes
            count_read_bytes(expected_bytes - counted_bytes)

    def check_all_read(self, framed_bytes: int) -> None:
        """Check nothing, because RocksDB raises an error if it stops before the last row."""


@contextmanager
def database_of_snapshot(
    files: SnapshotFiles, file_extents: Sequence[tuple[str, Extent]], header: KeyedHeader
) -> Iterator[GuardedDatabase]:
    """Open a database in the block; `file_extents` has the name and the extent in `files` of each of its files."""
    with (
        fetched_database(listed_files(files, file_extents), Path(scratch_directory())) as directory,
        guarded_database(directory, header.names) as database,
    ):
        yield database
