"""Assembles a database from files of other databases, and lets RocksDB compact away the rows of other subtasks.

Files of an assembled database may straddle the bounds of its key groups, and Flink downloads such a file for several
subtasks. This module lets RocksDB compact the key ranges outside of these bounds: RocksDB rewrites the straddling files
and the files that they overlap in lower levels, and no other files. The result has only rows of its own key groups and
no range tombstones, so it may be joined with other databases. A dirty database (see `assembly`) is compacted in the
same way before it is joined with others.

RocksDB works in a scratch directory, on links to the files or on copies of them, with Rescale's options (see
`open_database`). A file that keeps its number was not rewritten, since RocksDB never uses a number twice.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from rescale.flink.advice import ASK_FOR_CANONICAL_RESULT
from rescale.flink.key_groups import KeyGroupRange
from rescale.rocksdb.assembly.assembled_database import AssembledDatabase, SourceDatabase
from rescale.rocksdb.assembly.assembly import assemble, is_clean
from rescale.rocksdb.database_layout import LEVEL_COUNT, MANIFEST_NAME, SPARE_FILE_NUMBERS, newest_creation_time
from rescale.rocksdb.engine.child import ChildEnded, ChildTask, conversation
from rescale.rocksdb.engine.directory import DatabaseDirectory, fetched_database
from rescale.rocksdb.engine.guarded_database import ended_child_error
from rescale.rocksdb.engine.library import RocksdbError, library
from rescale.rocksdb.engine.open_database import rocksdb_message_error
from rescale.rocksdb.engine.opened_directory import TABLE_OPTIONS, open_directory
from rescale.rocksdb.engine.shared_arrays import SharedArrays
from rescale.rocksdb.engine.table_check import check_tables
from rescale.rocksdb.key_range import KeyRange, key_range
from rescale.rocksdb.manifest.edit_writer import varint
from rescale.rocksdb.manifest.manifest import Manifest, read_current, read_manifest
from rescale.rocksdb.manifest.manifest_writer import write_current, write_manifest
from rescale.rocksdb.manifest.version_edit import FileTag, LiveFile
from rescale.rocksdb.options_file import MERGE_OPERATOR
from rescale.rocksdb.sst.identity import HOST, overwrite_identity
from rescale.rocksdb.stored_files import CURRENT, StoredFile
from rescale.storage.scratch import MORE_ROOM_ADVICE
from rescale.text.errors import NO_ROOM_ERRORS, IntegrityError, StoreError

_OPEN_OPTIONS = (
    f"merge_operator={MERGE_OPERATOR};{TABLE_OPTIONS};db_host_id={HOST};num_levels={LEVEL_COUNT};max_open_files=256;"
    "disable_auto_compactions=1;level_compaction_dynamic_level_bytes=0;target_file_size_base=67108864;"
    "max_subcompactions=1;max_background_jobs=2;ttl=0;periodic_compaction_seconds=0;"
    "stats_dump_period_sec=0;stats_persist_period_sec=0;info_log_level=FATAL_LEVEL"
)
"""RocksDB options: Flink's levels and table format, and no compactions or statistics that depend on time."""

_FORCE_OPTIMIZED = 3
"""`BottommostLevelCompaction::kForceOptimized`.

A compaction also rewrites files of the last level, except those that it wrote itself.
"""

_IDENTITY_NAME = "IDENTITY"
_DISK_FULL_MESSAGES = tuple(map(os.strerror, NO_ROOM_ERRORS))


@dataclass(frozen=True)
class StoredDatabase:
    """A database, and where each of its files is stored, by file name.

    `written_names` are the names of its files that compactions wrote to a scratch directory.
    """

    database: SourceDatabase
    files: Mapping[str, StoredFile]
    written_names: frozenset[str] = field(default=frozenset())


@contextmanager
def compacted_database(
    sources: Sequence[StoredDatabase], key_groups: KeyGroupRange, max_parallelism: int, scratch: Path, name: str
) -> Iterator[StoredDatabase]:
    """Provide a database with the rows of the sources in `key_groups`, and no others, until the block ends.

    Its files are unchanged files of the sources (which stay where they are), new SST files below `scratch`, and small
    files in memory. Sources may be dirty (see `assembly`). `name` must be unique among all databases; the same sources
    and `name` give the same bytes. Raises the errors of `fetched_database` and `assemble`, `SnapshotError` or
    `StoreError` for errors of RocksDB, and `IntegrityError` if a compaction leaves rows of other key groups.
    """
    with ExitStack() as stack:
        if len(sources) > 1:
            sources = [
                source
                if is_clean(source.database, key_groups, max_parallelism)
                else stack.enter_context(
                    compacted_database([source], key_groups, max_parallelism, scratch, f"{name}/{source_number}")
                )
                for source_number, source in enumerate(sources)
            ]
        else:
            key_groups = key_groups.intersection(sources[0].database.key_groups)
        assembled_database = assemble([source.database for source in sources], key_groups, max_parallelism)
        stored_database = _stored_database(assembled_database, sources, key_groups, name)
        if assembled_database.straddling_names:
            identity = str(uuid.uuid5(uuid.NAMESPACE_URL, name)).encode()
            files_without_options = [
                file for file in stored_database.files.values() if not file.name.startswith("OPTIONS-")
            ]
            files_without_options.append(StoredFile(_IDENTITY_NAME, name, len(identity), data=identity))
            directory = stack.enter_context(fetched_database(files_without_options, scratch))
            new_range = key_range(key_groups, max_parallelism)
            _compact_in_child(directory, assembled_database.manifest, new_range)
            stored_database = _database_after_compaction(directory, stored_database, new_range, name)
        yield stored_database


def _stored_database(
    assembled: AssembledDatabase, sources: Sequence[StoredDatabase], key_groups: KeyGroupRange, name: str
) -> StoredDatabase:
    files, written_names = {}, set()
    for reused in assembled.reused_files:
        source = sources[reused.source_number]
        files[reused.name] = replace(source.files[reused.source_name], name=reused.name)
        if reused.source_name in source.written_names:
            written_names.add(reused.name)
    for new_file in assembled.new_files:
        files[new_file.name] = StoredFile(new_file.name, name, len(new_file.data), data=new_file.data)
    options_name = next((file for file in files if file.startswith("OPTIONS-")), None)
    database = SourceDatabase(name, assembled.manifest, key_groups, options_name)
    return StoredDatabase(database, files, frozenset(written_names))


def _compact_in_child(directory: DatabaseDirectory, manifest: Manifest, new_range: KeyRange) -> None:
    """Compact the directory in a child process, because a damaged file may crash RocksDB."""
    check_tables(directory)
    database_bytes = sum(file.length for file in directory.files)
    try:
        with conversation(_compaction, directory, manifest, new_range, size=database_bytes):
            pass
    except ChildEnded as error:
        states = [family.name for family in manifest.column_families if family.id]
        raise ended_child_error(error, directory, states) from None


def _compaction(_: SharedArrays, directory: DatabaseDirectory, manifest: Manifest, new_range: KeyRange) -> ChildTask:
    _compact(directory, manifest, new_range)
    yield


def _compact(directory: DatabaseDirectory, manifest: Manifest, new_range: KeyRange) -> None:
    """Compact the key ranges outside of `new_range`, in all column families with straddling files."""
    rocksdb = library()
    states = [family.name for family in manifest.column_families]
    with ExitStack() as stack:
        try:
            address, families = open_directory(directory.path, states, _OPEN_OPTIONS, stack, is_read_only=False)
            options = rocksdb.call("compactoptions_create")
            stack.callback(rocksdb.call, "compactoptions_destroy", options)
            rocksdb.call("compactoptions_set_bottommost_level_compaction", options, _FORCE_OPTIMIZED)
            rocksdb.call("compactoptions_set_exclusive_manual_compaction", options, 1)
            wait_options = rocksdb.call("wait_for_compact_options_create")
            stack.callback(rocksdb.call, "wait_for_compact_options_destroy", wait_options)
            for family in manifest.column_families:
                keys_below = [file.smallest_user_key for file in family.files if new_range.reaches_below(file)]
                keys_above = [file.largest_user_key for file in family.files if new_range.reaches_above(file)]
                ranges = [(min(keys_below), new_range.begin)] if keys_below else []
                ranges += [(new_range.end, max(keys_above))] if keys_above else []
                for begin, end in ranges:
                    handle = families[family.name]
                    rocksdb.call("compact_range_cf_opt", address, handle, options, begin, len(begin), end, len(end))
                    # Reports the errors of `compact_range_cf_opt`, which itself reports no errors.
                    rocksdb.call_checked("wait_for_compact", address, wait_options)
        except RocksdbError as error:
            if any(message in str(error) for message in _DISK_FULL_MESSAGES):
                raise StoreError(
                    "the disk on which RocksDB compacts a database is full",
                    path=str(directory.path.parent),
                    found=f"RocksDB says: {error}",
                    advice=MORE_ROOM_ADVICE,
                ) from None
            raise rocksdb_message_error(str(error), directory) from None


def _database_after_compaction(
    directory: DatabaseDirectory, before: StoredDatabase, new_range: KeyRange, name: str
) -> StoredDatabase:
    """Return the compacted database, whose new files are numbered from the old `next_file_number` on.

    Files that RocksDB did not rewrite stay where they are.
    """
    manifest, old_manifest = _manifest_in(directory), before.database.manifest
    if not new_range.holds(manifest.files.values()):
        raise IntegrityError(
            "RocksDB's compaction left rows outside of the key groups of a database",
            path=before.database.uri,
            found=", ".join(sorted(manifest.files)),
            advice=ASK_FOR_CANONICAL_RESULT,
        )
    new_numbers = sorted(
        file.number for file in manifest.files.values() if file.number >= old_manifest.next_file_number
    )
    final_numbers = dict(
        zip(
            new_numbers,
            range(old_manifest.next_file_number, old_manifest.next_file_number + len(new_numbers)),
            strict=True,
        )
    )
    creation_time = newest_creation_time(old_manifest.files.values())
    families = tuple(
        replace(
            family,
            files=tuple(
                _renumbered_entry(file, final_numbers[file.number], creation_time)
                if file.number in final_numbers
                else file
                for file in family.files
            ),
        )
        for family in manifest.column_families
    )
    manifest = Manifest(
        families, old_manifest.last_sequence, old_manifest.next_file_number + len(new_numbers) - 1 + SPARE_FILE_NUMBERS
    )
    files = {file: before.files[file] for file in before.files if file in manifest.files or not file.endswith(".sst")}
    small_files = {MANIFEST_NAME: write_manifest(manifest, MANIFEST_NAME), CURRENT: write_current(MANIFEST_NAME)}
    files |= {file: StoredFile(file, name, len(data), data=data) for file, data in small_files.items()}
    for number in new_numbers:
        path, file = directory.path / f"{number:06d}.sst", f"{final_numbers[number]:06d}.sst"
        overwrite_identity(path, f"{name}/{file}", creation_time)
        files[file] = StoredFile(file, str(path), path.stat().st_size)
    written_names = {file for file in before.written_names if file in files} | {
        f"{number:06d}.sst" for number in final_numbers.values()
    }
    return StoredDatabase(replace(before.database, manifest=manifest), files, frozenset(written_names))


def _manifest_in(directory: DatabaseDirectory) -> Manifest:
    manifest_name = read_current((directory.path / CURRENT).read_bytes(), str(directory.path / CURRENT))
    return read_manifest((directory.path / manifest_name).read_bytes(), str(directory.path / manifest_name))


def _renumbered_entry(file: LiveFile, number: int, creation_time: int) -> LiveFile:
    """Return a file's entry with new number and times, and without the unique id that `overwrite_identity` changes."""
    times = {FileTag.OLDEST_ANCESTOR_TIME: varint(creation_time), FileTag.CREATION_TIME: varint(creation_time)}
    fields = tuple((tag, times.get(FileTag(tag), value)) for tag, value in file.fields if tag != FileTag.UNIQUE_ID)
    return replace(file, number=number, fields=fields)
