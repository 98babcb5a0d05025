"""The SST files of a RocksDB directory whose rows may differ between two checkpoints.

A file of the earlier checkpoint and one of the later checkpoint are the same file if their handles name the same place.
Flink gives every uploaded file a unique name there. The name in the directory proves nothing, because RocksDB may use
it again after a failure (`SharedStateRegistryImpl`). The place in the handle counts even if the snapshot is a copy,
whose bytes Rescale reads elsewhere.

Flink uploads all files again, under new names, for the first checkpoint after a restore (`RecoveryClaimMode.NO_CLAIM`),
for a full checkpoint and for a native savepoint. A file and its second upload count as the same file if both MANIFESTs
describe them alike, and both have the same session of RocksDB and file number in their properties. A session uses each
file number once (`GetSstInternalUniqueId`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from rescale.flink.key_groups import KeyGroupRange
from rescale.flink.metadata.handles import IncrementalHandle
from rescale.rocksdb.manifest.compactions import RewrittenFiles, TransientTable, rewritten_files
from rescale.rocksdb.manifest.version_edit import LiveFile
from rescale.rocksdb.options_file import unfiltered_families
from rescale.snapshot.databases.live_tables import newest_options_of, read_named_file
from rescale.snapshot.databases.table_sizes import open_table
from rescale.snapshot.keyed_state import Database, LiveTable
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Operator, Snapshot
from rescale.storage.contract import Pin
from rescale.storage.side_by_side import side_by_side
from rescale.text.errors import SnapshotError, UnsupportedError


class UnsharedTables(NamedTuple):
    """Names of the SST files that only the earlier checkpoint has (gone), and that only the later one has (added).

    Files that differ only because compactions rewrote rows are left out. `transient_tables` were flushed and compacted
    away between the checkpoints; values of their keys may have changed.
    """

    gone_names: frozenset[str]
    added_names: frozenset[str]
    transient_tables: frozenset[TransientTable] = frozenset()


def unshared_tables(
    earlier: Snapshot,
    before: Database | None,
    later: Snapshot,
    after: Database | None,
    readable_sizes: Mapping[str, int],
) -> UnsharedTables:
    """Compare a RocksDB directory in two checkpoints: `before` and `after`, None if the checkpoint lacks the directory.

    `readable_sizes` has, by name, the size in bytes of each SST file of a checkpoint in between, if the file still
    exists. Raises the errors of `read_manifest`.
    """
    gone_names, added_names = differing_tables(earlier, before, later, after)
    if before is None or after is None or not gone_names or not added_names:
        return UnsharedTables(gone_names, added_names)
    rewritten_names, transient_tables = _rewritten_files(earlier, before, later, after, readable_sizes)
    return UnsharedTables(gone_names - rewritten_names, added_names - rewritten_names, transient_tables)


def differing_tables(
    earlier: Snapshot, before: Database | None, later: Snapshot, after: Database | None
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the SST files that only the earlier checkpoint has, and that only the later one has.

    Raises `SnapshotError` if a file that Flink may have uploaded again is damaged.
    """
    old, new = _tables_by_place(earlier, before), _tables_by_place(later, after)
    unshared_tables = [
        [tables[place] for place in tables.keys() - others.keys()] for tables, others in ((old, new), (new, old))
    ]
    uploaded_again = _uploaded_again(earlier, unshared_tables[0], later, unshared_tables[1])
    gone_names, added_names = (
        frozenset(table.file.name for table in tables) - uploaded_again for tables in unshared_tables
    )
    return gone_names, added_names


def paired_databases(
    earlier: Operator, later: Operator
) -> list[tuple[KeyGroupRange, Database | None, Database | None]]:
    """Return (key groups, earlier directory, later directory) of each RocksDB directory, in order of key groups.

    A directory is None where a checkpoint lacks it.
    """
    earlier_by_key_groups, later_by_key_groups = (
        {database.key_groups: database for database in operator.databases} for operator in (earlier, later)
    )
    return [
        (key_groups, earlier_by_key_groups.get(key_groups), later_by_key_groups.get(key_groups))
        for key_groups in sorted(earlier_by_key_groups.keys() | later_by_key_groups.keys())
    ]


def backend_texts_by_subtask(operator: Operator) -> dict[int, str]:
    """Return a text with the id and the key groups of each RocksDB backend of an operator, by subtask.

    A restore keeps id and key groups, unless it rescales the operator or reads a canonical savepoint.
    """
    handle_by_subtask = {
        subtask.index: subtask.state.managed_keyed for subtask in operator.entry.subtasks if subtask.state is not None
    }
    return {
        subtask: f"{handle.backend_id} of {handle.key_group_count} key groups from {handle.first_key_group} on"
        for subtask, handle in handle_by_subtask.items()
        if isinstance(handle, IncrementalHandle)
    }


def replaced_backend(earlier: Operator, later: Operator) -> tuple[int, str, str] | None:
    """Return (subtask, earlier backend, later backend) of the first subtask whose RocksDB backends differ.

    Returns None if there is no such subtask.
    """
    old_backends, new_backends = backend_texts_by_subtask(earlier), backend_texts_by_subtask(later)
    for subtask in sorted(old_backends.keys() & new_backends.keys()):
        if old_backends[subtask] != new_backends[subtask]:
            return subtask, old_backends[subtask], new_backends[subtask]
    return None


class FileBetween(NamedTuple):
    """SST file of a checkpoint in between: an extent of `uri` in the version `pin`."""

    uri: str
    pin: Pin
    extent: Extent


FilesBetween = Mapping[tuple[str, KeyGroupRange], Mapping[str, FileBetween]]
"""SST files of checkpoints in between: by (operator id, key groups) of their directory, then by name."""


def files_between(batches: Iterable[Sequence[Snapshot]], later: Snapshot) -> FilesBetween:
    """Return the still existing SST files that earlier checkpoints have and the later one does not have.

    The earlier checkpoints come in `batches`, of which only one needs to be open at a time. See `tables_in_between` for
    checkpoints that are left out.
    """
    later_by_directory = _databases_of(later)
    files_by_directory: dict[tuple[str, KeyGroupRange], dict[str, FileBetween]] = {
        directory: {} for directory in later_by_directory
    }
    for batch in batches:
        earlier_databases = [(snapshot, _databases_of(snapshot)) for snapshot in batch]

        directories = [
            (
                after,
                [
                    (snapshot, database_by_directory[directory])
                    for snapshot, database_by_directory in earlier_databases
                    if directory in database_by_directory
                ],
            )
            for directory, after in later_by_directory.items()
        ]
        files_of_batch = side_by_side(lambda pair: _files_between(pair[1], later, pair[0]), directories)
        for directory, directory_files in zip(files_by_directory, files_of_batch, strict=True):
            files_by_directory[directory] |= directory_files
    return files_by_directory


def _files_between(
    checkpoints: Sequence[tuple[Snapshot, Database]], later: Snapshot, after: Database
) -> dict[str, FileBetween]:
    """Return the files of one directory; no files if a MANIFEST cannot be read.

    Without them, the plan is still right, but reads more files.
    """
    later_names = {file.name for file in after.files}
    with suppress(SnapshotError):
        return {
            name: FileBetween(*snapshot.files[extent.file], extent)
            for name, snapshot, extent in tables_in_between(checkpoints, later, after)
            if name not in later_names
        }
    return {}


def tables_in_between(
    checkpoints: Sequence[tuple[Snapshot, Database]], later: Snapshot, after: Database
) -> Iterator[tuple[str, Snapshot, Extent]]:
    """Yield (name, snapshot, extent) of the SST files that a directory had in earlier checkpoints and that still exist.

    `after` is the directory in the later checkpoint. A checkpoint is left out if its MANIFEST is not the beginning of
    the later MANIFEST: then its directory belongs to another database with the same key groups.
    """
    if not checkpoints:
        return
    _, later_manifest = _manifest(later, after)
    for snapshot, database in checkpoints:
        if later_manifest.startswith(_manifest(snapshot, database)[1]):
            for file in database.files:
                if file.name.endswith(".sst") and snapshot.files[file.extent.file][0] not in snapshot.missing_uris:
                    yield file.name, snapshot, file.extent


def _databases_of(snapshot: Snapshot) -> dict[tuple[str, KeyGroupRange], Database]:
    """Return the RocksDB directories of a snapshot by (operator id, key groups)."""
    return {
        (operator.operator_id, database.key_groups): database
        for operator in snapshot.operators
        for database in operator.databases
    }


class _TablePlace(NamedTuple):
    """Place of an SST file: the URI and size of the file that the handle names, and the range of bytes in that file."""

    uri: str
    size: int
    start: int
    length: int


def _tables_by_place(snapshot: Snapshot, database: Database | None) -> dict[_TablePlace, LiveTable]:
    if database is None:
        return {}
    return {
        _TablePlace(snapshot.recorded_uris[file], snapshot.files[file][1].size, start, length): table
        for table in database.tables
        for file, start, length in (table.extent,)
    }


def _uploaded_again(
    earlier: Snapshot, gone_tables: Sequence[LiveTable], later: Snapshot, added_tables: Sequence[LiveTable]
) -> frozenset[str]:
    """Return the names in the directory of those files that Flink has uploaded again.

    Such a file is among both the gone and the added tables, because its second upload is in another place.
    """
    table_by_entry = {_comparable_entry(table): table for table in added_tables}
    table_pairs = [
        (table, table_by_entry[_comparable_entry(table)])
        for table in gone_tables
        if _comparable_entry(table) in table_by_entry
    ]

    def is_same_file(pair: tuple[LiveTable, LiveTable]) -> bool:
        old, new = pair
        return (writer := _session_and_number(earlier, old)) is not None and writer == _session_and_number(later, new)

    are_same = side_by_side(is_same_file, table_pairs)
    return frozenset(old.file.name for (old, _), is_equal in zip(table_pairs, are_same, strict=True) if is_equal)


def _comparable_entry(table: LiveTable) -> LiveFile:
    """Return a file's entry in the MANIFEST without level and custom fields, which may differ between checkpoints."""
    return replace(table.file, level=0, fields=())


def _session_and_number(snapshot: Snapshot, table: LiveTable) -> tuple[bytes, bytes] | None:
    """Return the session of RocksDB that wrote a file, and the file's number in it; None if the session is unknown."""
    try:
        properties = open_table(table, snapshot.contents).properties
    except UnsupportedError:
        return None
    return (properties.session_id, properties.file_number) if properties.session_id else None


def _rewritten_files(
    earlier: Snapshot, before: Database, later: Snapshot, after: Database, readable_sizes: Mapping[str, int]
) -> RewrittenFiles:
    options_file = newest_options_of(later, after)
    if options_file is None:
        return RewrittenFiles()
    options_uri, options_content = options_file
    _, earlier_manifest = _manifest(earlier, before)
    manifest_uri, later_manifest = _manifest(later, after)
    return rewritten_files(
        earlier_manifest,
        later_manifest,
        unfiltered_families(options_content, options_uri),
        readable_sizes,
        manifest_uri,
    )


def _manifest(snapshot: Snapshot, database: Database) -> tuple[str, bytes]:
    """Return the URI and the content of a directory's MANIFEST."""
    name = next(file.name for file in database.files if file.name.startswith("MANIFEST-"))
    return read_named_file(snapshot, database, name)
