"""Reads which SST files of RocksDB directories are live, and with which options the job opens the directories."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import chain, islice

from rescale.flink.keyed.header import require_header
from rescale.rocksdb.assembly.assembled_database import source_database
from rescale.rocksdb.consistency import checked_manifest
from rescale.rocksdb.manifest.manifest import LARGEST_MANIFEST_BYTES
from rescale.rocksdb.stored_files import StoredFile, needed_files, newest_options
from rescale.snapshot.keyed_state import Database, LiveTable
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.storage.side_by_side import side_by_side
from rescale.text.errors import located


def with_tables(snapshot: Snapshot, files: SnapshotFiles | None = None) -> Snapshot:
    """Return the snapshot with the SST files of its databases, from their MANIFESTs.

    `files` reads the MANIFESTs; by default it is `snapshot.contents`. Raises the errors of `checked_manifest`, which
    then name the operator.
    """
    snapshot.check_complete()
    manifest_files = files or snapshot.contents
    operator_databases = [(operator, database) for operator in snapshot.operators for database in operator.databases]
    databases = iter(side_by_side(lambda pair: database_with_tables(manifest_files, *pair), operator_databases))
    operators = tuple(
        replace(operator, databases=tuple(next(databases) for _ in operator.databases))
        for operator in snapshot.operators
    )
    return replace(snapshot, operators=operators)


def database_with_tables(manifest_files: SnapshotFiles, operator: Operator, database: Database) -> Database:
    """Return a database of the operator with its SST files. Raises the errors of `checked_manifest`."""
    extent_by_name = {file.name: file.extent for file in database.files}

    def content_of(file: StoredFile) -> bytes:
        return manifest_files.read(extent_by_name[file.name], LARGEST_MANIFEST_BYTES)

    files = listed_files(manifest_files, extent_by_name.items())
    with located(operator=operator.label):
        id_by_state = {state.name: state_id for state_id, state in enumerate(require_header(database.parsed).states)}
        manifest = checked_manifest(needed_files(files), content_of, id_by_state)
    tables = tuple(
        LiveTable(id_by_state[family.name], file, extent_by_name[file.name])
        for family in manifest.column_families
        for file in family.files
    )
    return replace(database, tables=tables, source=source_database(files, manifest, database.key_groups))


def listed_files(files: SnapshotFiles, named_extents: Iterable[tuple[str, Extent]]) -> list[StoredFile]:
    """Return the stored files of (file name, extent) pairs, with the bytes of those that lie in `_metadata`."""
    return [_stored_file(files, name, extent) for name, extent in named_extents]


def check_options_of(snapshot: Snapshot, operator: Operator, check: Callable[[bytes, str], None]) -> None:
    """Call `check` with the options with which the job opens the operator's databases, and their path.

    Only the first database is checked, because all subtasks have the same options.
    """
    changelog_databases = (
        part for changelog in operator.changelogs for part in changelog.base if isinstance(part, Database)
    )
    for database in islice(chain(operator.databases, changelog_databases), 1):
        if (options_file := newest_options_of(snapshot, database)) is not None:
            uri, content = options_file
            with located(operator=operator.label):
                check(content, uri)


def newest_options_of(snapshot: Snapshot, database: Database) -> tuple[str, bytes] | None:
    """Return the URI and the content of a directory's newest OPTIONS file; None if there is none."""
    named_extents = ((file.name, file.extent) for file in database.files if file.name.startswith("OPTIONS-"))
    options = newest_options(listed_files(snapshot.contents, named_extents))
    return None if options is None else read_named_file(snapshot, database, options.name)


def read_named_file(snapshot: Snapshot, database: Database, name: str) -> tuple[str, bytes]:
    """Return the URI and the content of the small file `name` of a directory."""
    extent = next(file.extent for file in database.files if file.name == name)
    return snapshot.files[extent.file][0], snapshot.contents.read(extent, LARGEST_MANIFEST_BYTES)


def _stored_file(files: SnapshotFiles, name: str, extent: Extent) -> StoredFile:
    uri, pin = files.pinned_files[extent.file]
    if extent.file == 0:
        return StoredFile(name, uri, extent.length, data=files.read(extent))
    return StoredFile(name, uri, extent.length, extent.start, pin)
