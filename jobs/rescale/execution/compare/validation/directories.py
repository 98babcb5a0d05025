"""Comparison of RocksDB directories by their MANIFESTs and range tombstones, without reading rows.

A new directory of an operator that keeps its max parallelism is made in one of two ways, which its files reveal:

* Its SST files are the source's, and range tombstones hide rows of other subtasks. `assembly_proof` proves such a
  directory, except for the bytes of copied files.
* RocksDB has rewritten its files, and none has keys outside the subtask's key groups. Such a directory can only be
  proven by its rows.

File names do not identify SST files: a file is matched with the source's by its state, size and keys.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rescale.execution.compare.validation.coverage import FilePair, is_compared_by_record, pair_database_files
from rescale.execution.compare.validation.read_back import unreadable_result_error
from rescale.flink.key_group_index import KeyGroupIndex
from rescale.rocksdb.assembly.assembled_database import SourceDatabase
from rescale.rocksdb.assembly.assembly_proof import Origin, ResultDatabase, check_assembled
from rescale.rocksdb.key_range import KeyRange, Overlap, key_range
from rescale.rocksdb.manifest.version_edit import LiveFile
from rescale.rocksdb.sst.table import RangeTombstone
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.databases.table_sizes import open_table
from rescale.snapshot.keyed_state import Database, LiveTable
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.storage.side_by_side import side_by_side
from rescale.text.errors import IntegrityError, SnapshotError, UnsupportedError, located


class DirectoryFiles(NamedTuple):
    """A subtask's RocksDB directory that is made of whole SST files of the source, and of files with range tombstones.

    `same_file_count` counts SST files of the source that the result refers to. The bytes of copied SST files (`copies`)
    and of files that are not SST files (`small_files`) are still to be compared. `deleted_range_count` counts the added
    SST files, which hold only range tombstones.
    """

    subtask: int
    same_file_count: int
    copies: tuple[FilePair, ...]
    small_files: tuple[FilePair, ...]
    deleted_range_count: int


def is_comparable_by_files(old: Operator, new: Operator) -> bool:
    """Return whether RocksDB directories can be compared by files.

    They can if max parallelism and kind of state stay the same, no state and no old rows are left out, and raw keyed
    timers do not become keyed state.
    """
    keeps_kind = old.max_parallelism == new.max_parallelism and old.holder_kinds == new.holder_kinds
    keeps_rows = not old.dropped_states and not old.cutoffs
    return keeps_kind and bool(old.databases) and keeps_rows and not (old.raw_timers and not new.raw_keyed)


def match_directories(source: Snapshot, result: Snapshot) -> list[dict[int, DirectoryFiles]]:
    """Return for each operator the new directories that are made of whole files of the source, by subtask.

    The bytes of these files remain to be compared. Raises `IntegrityError` if a directory is neither made of whole
    files nor rewritten: range tombstones are missing or hide other rows, or files lie where they do not belong.
    """
    pairs = list(zip(source.operators, result.operators, strict=True))
    if not any(is_comparable_by_files(*pair) for pair in pairs):
        return [{} for _ in pairs]
    if any(is_comparable_by_files(*pair) and is_compared_by_record(*pair) for pair in pairs):
        pairs = list(zip(_source_with_tables(source).operators, result_with_tables(result).operators, strict=True))
    comparer = _DirectoryComparer(source.contents, result.contents.without_pins())
    return [comparer.match_operator(old, new) if is_comparable_by_files(old, new) else {} for old, new in pairs]


def _source_with_tables(source: Snapshot) -> Snapshot:
    databases = [database for operator in source.operators for database in operator.databases]
    return with_tables(source) if any(database.source is None for database in databases) else source


def result_with_tables(result: Snapshot) -> Snapshot:
    """Return the result with the SST files that its MANIFESTs list. Raises `IntegrityError` if it cannot be read.

    The files may be in another version than when the result was opened.
    """
    try:
        return with_tables(result, result.contents.without_pins())
    except (SnapshotError, UnsupportedError) as error:
        raise unreadable_result_error(error) from None


class _DirectoryComparer:
    """Compares directories whose MANIFESTs were read; `source` and `result` read the files of both snapshots."""

    def __init__(self, source: SnapshotFiles, result: SnapshotFiles) -> None:
        self._source = source
        self._result = result

    def match_operator(self, old: Operator, new: Operator) -> dict[int, DirectoryFiles]:
        with located(operator=old.label):
            if not is_compared_by_record(old, new):
                return {directory.subtask: directory for directory in self._unchanged_directories(old, new)}
            index = KeyGroupIndex(old.databases)
            directories = side_by_side(
                lambda database: self._match_directory(old, index.overlapping(database.key_groups), database),
                new.databases,
            )
        return {directory.subtask: directory for directory in directories if directory is not None}

    def _unchanged_directories(self, old: Operator, new: Operator) -> Iterator[DirectoryFiles]:
        """Yield an operator's directories, which all stay in their subtasks, with the same files."""
        pairs_by_subtask: dict[int, list[FilePair]] = defaultdict(list)
        for pair in pair_database_files(old, new):
            pairs_by_subtask[pair.subtask].append(pair)
        for subtask, file_pairs in pairs_by_subtask.items():
            yield self._directory_files(subtask, file_pairs, deleted_range_count=0)

    def _match_directory(
        self, old: Operator, old_databases: Sequence[Database], new: Database
    ) -> DirectoryFiles | None:
        """Return the directory `new` if it is made of whole files of `old_databases`; None if RocksDB rewrote files.

        `old_databases` are the source's directories that share key groups with `new`.
        """
        max_parallelism = old.max_parallelism
        sources, result = [old_database.known_source for old_database in old_databases], new.known_source
        covered_groups = (
            new.key_groups.intersection(old_databases[0].key_groups) if len(old_databases) == 1 else new.key_groups
        )
        covered_range = key_range(covered_groups, max_parallelism)
        matches = _match_files(sources, result, covered_range, max_parallelism)
        if covered_range.holds(result.manifest.files.values()) and not matches.is_complete:
            return None
        deleted_ranges = {
            table.file.name: self._deleted_ranges(table)
            for table in new.tables
            if table.file.name not in matches.origins
        }
        database = ResultDatabase(result.uri, result.manifest, matches.origins, deleted_ranges)
        check_assembled(sources, database, new.key_groups, max_parallelism)
        extents_by_source = [_extents_by_name(source) for source in old_databases]
        result_extents = _extents_by_name(new)
        pairs = [
            FilePair(new.subtask, name, extents_by_source[origin.source_number][origin.name], result_extents[name])
            for name, origin in matches.origins.items()
        ]
        pairs += _pair_options_files(old_databases, new)
        return self._directory_files(new.subtask, pairs, deleted_range_count=len(deleted_ranges))

    def _deleted_ranges(self, table: LiveTable) -> Sequence[RangeTombstone]:
        """Return the range tombstones of a file. Raises `IntegrityError` if the file also has rows."""
        try:
            opened_table = open_table(table, self._result)
            ranges = list(opened_table.range_tombstones())
            has_rows = (
                opened_table.properties.entry_count != len(ranges)
                or next(opened_table.index_entries(), None) is not None
            )
        except (SnapshotError, UnsupportedError) as error:
            raise unreadable_result_error(error) from None
        if has_rows:
            raise IntegrityError(
                "an SST file with rows does not belong to the source",
                path=self._result.uri(table.extent),
                expected=f"only {len(ranges)} range tombstones",
                found=f"{opened_table.properties.entry_count} entries",
            )
        return ranges

    def _directory_files(self, subtask: int, pairs: Sequence[FilePair], deleted_range_count: int) -> DirectoryFiles:
        tables = [pair for pair in pairs if pair.is_table]
        copies = tuple(pair for pair in tables if not self._is_source_file(pair))
        small_files = tuple(pair for pair in pairs if not pair.is_table)
        return DirectoryFiles(subtask, len(tables) - len(copies), copies, small_files, deleted_range_count)

    def _is_source_file(self, pair: FilePair) -> bool:
        """Return whether the result refers to the source's own file, whose version `check_references` has checked."""
        locations = [
            (files.uri(extent), extent.start, extent.length)
            for files, extent in ((self._source, pair.source), (self._result, pair.result))
        ]
        return locations[0] == locations[1]


class _Matches(NamedTuple):
    """The file of the source (`Origin`) that each SST file of a new directory matches, by name of the new file.

    `is_complete` is True if every SST file of the directory has a match, and so has every file of the source that may
    hold keys of the directory.
    """

    origins: Mapping[str, Origin]
    is_complete: bool


def _match_files(
    sources: Sequence[SourceDatabase], result: SourceDatabase, covered_range: KeyRange, max_parallelism: int
) -> _Matches:
    """Match SST files of the result with files of the source, by state, size and keys.

    Only files of the source with keys in `covered_range` are candidates. If several have the same state, size and keys,
    they are matched in the order of level and age.
    """
    candidates: dict[tuple[object, ...], list[Origin]] = defaultdict(list)
    for source_index, source in enumerate(sources):
        key_groups = key_range(source.key_groups, max_parallelism)
        for state, file in _files_by_state(source):
            if Overlap.OUTSIDE not in (covered_range.overlap(file), key_groups.overlap(file)):
                candidates[_size_and_keys(state, file)].append(Origin(source_index, file.name))
    origins: dict[str, Origin] = {}
    for state, file in _files_by_state(result):
        if unmatched_origins := candidates[_size_and_keys(state, file)]:
            origins[file.name] = unmatched_origins.pop(0)
    is_complete = origins.keys() == result.manifest.files.keys() and not any(candidates.values())
    return _Matches(origins, is_complete)


def _files_by_state(database: SourceDatabase) -> Iterator[tuple[str, LiveFile]]:
    """Yield (state name, file); within a level, the oldest file first."""
    return ((family.name, file) for family in database.manifest.column_families for file in family.files)


def _size_and_keys(state: str, file: LiveFile) -> tuple[object, ...]:
    return state, file.size, file.smallest_user_key, file.largest_user_key


def _pair_options_files(old_databases: Sequence[Database], new: Database) -> Iterator[FilePair]:
    """Pair each OPTIONS file of a new directory with the OPTIONS file of the first source directory that has one."""
    source_options = [
        _extents_by_name(old_database)[source.options_name]
        for old_database in sorted(old_databases, key=lambda old_database: old_database.key_groups)
        if (source := old_database.known_source).options_name is not None
    ]
    for name, extent in new.files:
        if name.startswith("OPTIONS-"):
            if not source_options:
                raise IntegrityError(
                    "a database has an OPTIONS file, but no source has any", path=new.known_source.uri, found=name
                )
            yield FilePair(new.subtask, name, source_options[0], extent)


def _extents_by_name(database: Database) -> dict[str, Extent]:
    return {file.name: file.extent for file in database.files}
