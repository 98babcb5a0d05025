"""SST files with right checksums, read by RocksDB's library: if an input crashes the library, Rescale reports that."""

from __future__ import annotations

import shutil
import tempfile
from atexit import register
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from fuzzing.subject import Subject
from fuzzing.subjects.tables import Sealing, read_table, unpacked_database
from rescale.flink.key_groups import KeyGroupRange
from rescale.rocksdb.manifest.manifest import Manifest, read_manifest
from rescale.rocksdb.manifest.manifest_writer import write_manifest
from rescale.rocksdb.sst import table
from rescale.rocksdb.stored_files import StoredFile
from rescale.text.errors import RescaleError, SnapshotError, UnsupportedError
from support.databases import databases, read_file, read_rows

_SNAPSHOTS = ("1.20-rocksdb-changing", "2-rocksdb-changing")


class _Database(NamedTuple):
    files: Sequence[StoredFile]
    states: Sequence[str]
    key_groups: KeyGroupRange

    @property
    def tables(self) -> list[StoredFile]:
        return [file for file in self.files if file.name.endswith(".sst")]


@cache
def _databases() -> tuple[_Database, ...]:
    """Return real databases, and one with uncompressed blocks, in which the bytes of an input reach the rows."""
    real_databases = [databases(name)[0] for name in _SNAPSHOTS]
    return (
        *(_Database(stored.files, stored.states, stored.key_groups) for stored in real_databases),
        _Database(unpacked_database(), ["state"], KeyGroupRange(0, 127)),
    )


@cache
def _scratch_folder() -> Path:
    folder = tempfile.mkdtemp(prefix="rescale-fuzzing-")
    register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _seeds() -> Iterator[bytes]:
    """Yield seeds: number of the database, number of the SST file, and its bytes."""
    for database_index, database in enumerate(_databases()):
        for file_index, file in enumerate(database.tables):
            yield bytes((database_index, file_index)) + read_file(file)


def _look(data: bytes) -> None:
    head, data = data[:2].ljust(2, b"\0"), data[2:]
    database = _databases()[head[0] % len(_databases())]
    replaced_table = database.tables[head[1] % len(database.tables)]
    sealing = Sealing(data)
    with patch.object(table, "uncompressed_content", sealing.unpacked), suppress(RescaleError):
        read_table(data)
    files = _with_replaced_table(database, replaced_table, bytes(sealing.data))
    try:
        read_rows(files, database.states, database.key_groups, 128, _scratch_folder())
    except AssertionError:  # rows are not unique in a file whose keys have no order
        raise SnapshotError("the rows are not in the order of their keys") from None


def _with_replaced_table(database: _Database, replaced_table: StoredFile, data: bytes) -> list[StoredFile]:
    """Return the files with one table replaced, and its new size in the MANIFEST."""
    files = []
    for file in database.files:
        if file == replaced_table:
            files.append(replace(file, data=data, length=len(data), start=0))
        elif file.name.startswith("MANIFEST"):
            manifest = write_manifest(
                _with_file_size(read_manifest(read_file(file), ""), replaced_table.name, len(data)), ""
            )
            files.append(replace(file, data=manifest, length=len(manifest)))
        else:
            files.append(file)
    return files


def _with_file_size(manifest: Manifest, name: str, size: int) -> Manifest:
    families = tuple(
        replace(family, files=tuple(replace(file, size=size) if file.name == name else file for file in family.files))
        for family in manifest.column_families
    )
    return replace(manifest, column_families=families)


SUBJECT = Subject(_seeds, _look, (SnapshotError, UnsupportedError), compiled=True)
