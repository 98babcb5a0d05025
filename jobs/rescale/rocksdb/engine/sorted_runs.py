"""Rows that are too many to be sorted in memory: sorted run by run, and merged by RocksDB as they are read back.

Each run becomes SST files in level 0 of a scratch database, where files may overlap. Rows of one key would hide each
other there, which cannot be: the rows that come back are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rescale.errors import SnapshotError
from rescale.flink.key_groups import KeyGroupRange
from rescale.rocksdb.database_layout import FIRST_TABLE, MANIFEST_NAME, NUMBERS_LEFT
from rescale.rocksdb.engine.directory import DatabaseDirectory
from rescale.rocksdb.engine.open_database import opened_database
from rescale.rocksdb.engine.scan import RowReader
from rescale.rocksdb.engine.table_writer import Rows, TableWriter, WrittenTable, rows_of, sorted_order
from rescale.rocksdb.manifest.edit_reader import InternalKey
from rescale.rocksdb.manifest.manifest import DEFAULT_COLUMN_FAMILY, ColumnFamily, Manifest
from rescale.rocksdb.manifest.manifest_writer import write_current, write_manifest
from rescale.rocksdb.manifest.version_edit import VALUE, LiveFile
from rescale.rocksdb.stored_files import CURRENT, StoredFile


class SortedRuns:
    """Rows of one state, given in any order; `folder` is an empty directory that they may fill.

    `path` and `state` are for errors: where the rows come from.
    """

    def __init__(self, folder: Path, max_parallelism: int, *, path: str, state: str) -> None:
        self._folder, self._max_parallelism = folder, max_parallelism
        self._path, self._state = path, state
        self._tables: list[WrittenTable] = []

    def add(self, rows: Rows) -> None:
        """Rows that fit in memory; errors as `TableWriter` raises them."""
        first = FIRST_TABLE + len(self._tables)
        with TableWriter(
            self._folder, "run", created=1, path=self._path, state=self._state, first_number=first
        ) as writer:
            self._tables += writer.write(rows, sorted_order(rows))
            self._tables += writer.finish()

    def merged(self, reader: RowReader) -> Iterator[Rows]:
        """All rows in the order of their keys; a batch is overwritten by the next one.

        `SnapshotError` at the end if a key was there twice.
        """
        with opened_database(self._database(), [self._state]) as database:
            everything = KeyGroupRange(0, self._max_parallelism - 1)
            found = 0
            for records in reader.read(database, self._state, 0, everything):
                found += len(records)
                yield rows_of(records, self._max_parallelism)
        if found != (given := sum(table.rows for table in self._tables)):
            raise SnapshotError(
                "keys are there twice",
                path=self._path,
                state=self._state,
                expected=f"{given:,} keys",
                found=f"{found:,} different ones",
            )

    def _database(self) -> DatabaseDirectory:
        files = tuple(
            LiveFile(
                level=0,
                number=int(table.path.stem),
                size=table.size,
                smallest_key=InternalKey(table.smallest, number, VALUE),
                largest_key=InternalKey(table.largest, number, VALUE),
                smallest_sequence=number,
                largest_sequence=number,
            )
            for number, table in enumerate(self._tables, 1)
        )
        families = (ColumnFamily(0, DEFAULT_COLUMN_FAMILY, ()), ColumnFamily(1, self._state, files))
        manifest = Manifest(families, len(files), FIRST_TABLE + len(files) + NUMBERS_LEFT)
        (self._folder / MANIFEST_NAME).write_bytes(write_manifest(manifest, MANIFEST_NAME))
        (self._folder / CURRENT).write_bytes(write_current(MANIFEST_NAME))
        listed = sorted(self._folder.iterdir())
        return DatabaseDirectory(
            self._folder, tuple(StoredFile(file.name, str(file), file.stat().st_size) for file in listed)
        )
