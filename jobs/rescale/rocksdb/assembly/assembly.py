"""Assembles a database for a new range of key groups from files of existing databases, without reading these files.

The MANIFEST lists the live SST files, their levels and their ages. So a new MANIFEST is enough to make a new database
of the files of one database, or of several databases with different key groups. Its files may also hold rows of key
groups that belong to other subtasks. Range tombstones in small new files hide these rows. Flink writes the same
tombstones when it clips a database (`RocksDBIncrementalCheckpointUtils.clipDBWithKeyGroupRange`), but must first open
the database, and copy the rows of all other databases into it.

*Numbers.* Files get new file numbers, which keep the files of one source in their order of age. RocksDB 6 orders
level-0 files by sequence number (`VersionBuilder::CheckConsistency`). So the new MANIFEST has shifted sequence numbers
for level-0 files: the numbers of each source begin above those of the previous source. Rows keep their own sequence
numbers. This is correct only because files of different sources have no key in common. RocksDB 8 and later order
level-0 files by epoch numbers, which are shifted in the same way. If a file of a column family lacks an epoch number,
the new MANIFEST has no epoch numbers for this column family, and RocksDB computes them (`RecoverEpochNumbers`).

*Range tombstones* lie in level 0 with the newest sequence numbers and epoch numbers; some releases of RocksDB ignore
range tombstones in other levels. Each column family has at most one tombstone below the wanted key groups and one above
them. A tombstone is no wider than the straddling files, because a compaction rewrites all files that
the tombstone overlaps.

*Clean and dirty.* A dirty database has files that straddle the bounds of its key groups, and range tombstones outside
these bounds, because Flink clipped it. If it were joined with another source, these tombstones would hide live rows of
that source. So only clean databases are joined, and a dirty one is compacted first (`compaction`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from rescale.flink.advice import ASK_FOR_CANONICAL_RESULT, TAKE_ANOTHER_SNAPSHOT
from rescale.flink.key_groups import KeyGroupRange
from rescale.rocksdb.assembly.assembled_database import AssembledDatabase, NewFile, ReusedFile, SourceDatabase
from rescale.rocksdb.database_layout import (
    FIRST_TABLE_NUMBER,
    LEVEL_COUNT,
    MANIFEST_NAME,
    OPTIONS_NAME,
    SPARE_FILE_NUMBERS,
    UNKNOWN_CHECKSUM_FIELDS,
    newest_creation_time,
)
from rescale.rocksdb.key_range import KeyRange, Overlap, key_range
from rescale.rocksdb.manifest.edit_reader import InternalKey
from rescale.rocksdb.manifest.edit_writer import varint
from rescale.rocksdb.manifest.manifest import DEFAULT_COLUMN_FAMILY, ColumnFamily, Manifest
from rescale.rocksdb.manifest.manifest_writer import write_current, write_manifest
from rescale.rocksdb.manifest.version_edit import LARGEST_SEQUENCE, RANGE_DELETION, FileTag, LiveFile
from rescale.rocksdb.sst.tombstone import write_tombstone
from rescale.rocksdb.stored_files import CURRENT
from rescale.text.errors import SnapshotError, UnsupportedError


def assemble(sources: Sequence[SourceDatabase], key_groups: KeyGroupRange, max_parallelism: int) -> AssembledDatabase:
    """Return a database with the rows of the sources in `key_groups`; each source must have some of these key groups.

    Raises `UnsupportedError` if a source has more levels than Flink's databases have. With several sources, also raises
    it if a source is not clean (see `is_clean`) or has ingested files in level 0. Raises `SnapshotError` if files of
    one level overlap.
    """
    return _Assembly(sources, key_groups, max_parallelism).result()


def is_clean(source: SourceDatabase, key_groups: KeyGroupRange, max_parallelism: int) -> bool:
    """Return whether `source` may be joined with other databases into one for `key_groups`.

    It may be joined if no file with rows in `key_groups` straddles the bounds of the key groups that `source` has.
    """
    return not _straddling_files(source, key_range(key_groups, max_parallelism), max_parallelism)


def refuse_ingested(source: SourceDatabase) -> None:
    """Raise `UnsupportedError` if level 0 has ingested files: their sequence numbers cannot be shifted.

    An ingested file stores its own sequence number, and the MANIFEST must have the same number.
    """
    ingested_names = [
        file.name for file in source.manifest.files.values() if not file.level and file.name in source.ingested_names
    ]
    if ingested_names:
        raise UnsupportedError(
            "a database with ingested SST files cannot be joined with others",
            path=source.uri,
            found=", ".join(sorted(ingested_names)),
            advice=ASK_FOR_CANONICAL_RESULT,
        )


def _straddling_files(source: SourceDatabase, new_range: KeyRange, max_parallelism: int) -> list[LiveFile]:
    """Return the files with rows in `new_range` that straddle the bounds of the source's key groups."""
    source_range = key_range(source.key_groups, max_parallelism)
    return [
        file
        for file in source.manifest.files.values()
        if Overlap.OUTSIDE not in (new_range.overlap(file), source_range.overlap(file))
        and source_range.overlap(file) == Overlap.STRADDLING
    ]


@dataclass(frozen=True)
class _ReusedEntry:
    """A file of source `source_number`: its MANIFEST entries before and after assembly."""

    source_number: int
    before: LiveFile
    after: LiveFile


class _Assembly:
    """Assembly of one database from files of the sources."""

    def __init__(self, sources: Sequence[SourceDatabase], key_groups: KeyGroupRange, max_parallelism: int) -> None:
        self._sources = sorted(enumerate(sources), key=lambda numbered: numbered[1].key_groups)
        self._max_parallelism = max_parallelism
        if len(sources) == 1:  # rows of the source in other key groups are dead
            key_groups = key_groups.intersection(sources[0].key_groups)
        self._new_range = key_range(key_groups, max_parallelism)
        self._next_file_number = FIRST_TABLE_NUMBER
        last_sequences = [source.manifest.last_sequence for _, source in self._sources]
        self._sequence_shifts = [0, *accumulate(last_sequences)]
        self._next_sequence = self._sequence_shifts[-1] + 1

    def result(self) -> AssembledDatabase:
        for _, source in self._sources:
            self._check_source(source)
        families: dict[str, list[_ReusedEntry]] = {DEFAULT_COLUMN_FAMILY: []}
        for source_rank, (source_number, source) in enumerate(self._sources):
            for family in source.manifest.column_families:
                families.setdefault(family.name, [])
            self._reuse(source_rank, source_number, source, families)
        creation_time = newest_creation_time(reused.after for family in families.values() for reused in family)
        new_files: list[NewFile] = []
        column_families = []
        for family_id, (name, entries) in enumerate(families.items()):
            files = self._with_epochs(entries)
            tombstone_files = list(self._tombstone_files(files, creation_time))
            for file in tombstone_files:
                data = write_tombstone(
                    file.smallest_user_key,
                    file.largest_user_key,
                    file.smallest_sequence,
                    column_family=(family_id, name),
                    creation_time=creation_time,
                )
                new_files.append(NewFile(file.name, data))
                files.append(replace(file, size=len(data)))
            files.sort(key=lambda file: (file.level, file.number))
            self._check_levels(files, name)
            column_families.append(ColumnFamily(family_id, name, tuple(files)))
        manifest = Manifest(
            tuple(column_families), self._next_sequence, self._next_file_number - 1 + SPARE_FILE_NUMBERS
        )
        return self._assembled(manifest, [reused for family in families.values() for reused in family], new_files)

    def _check_source(self, source: SourceDatabase) -> None:
        straddling_files = (
            _straddling_files(source, self._new_range, self._max_parallelism) if len(self._sources) > 1 else []
        )
        if straddling_files:
            raise UnsupportedError(
                "a database with rows outside of its key groups cannot be joined with others as it is",
                path=source.uri,
                expected=f"only rows of the key groups {source.key_groups}",
                found=", ".join(file.name for file in straddling_files),
                advice=ASK_FOR_CANONICAL_RESULT,
            )
        if len(self._sources) > 1:
            refuse_ingested(source)
        deepest_level = max((file.level for file in source.manifest.files.values()), default=0)
        if deepest_level >= LEVEL_COUNT:
            raise UnsupportedError(
                "a database has more levels than Flink's databases have",
                path=source.uri,
                expected=f"levels 0 to {LEVEL_COUNT - 1}",
                found=f"a file in level {deepest_level}",
                advice=ASK_FOR_CANONICAL_RESULT,
            )

    def _reuse(
        self, source_rank: int, source_number: int, source: SourceDatabase, families: dict[str, list[_ReusedEntry]]
    ) -> None:
        """Add the wanted files of `source` to `families`, under new file numbers in the order of their age.

        `source_number` is the index of `source` in the arguments of `assemble`, and `source_rank` its index in the
        order of key groups.
        """
        source_range = key_range(source.key_groups, self._max_parallelism)
        wanted_files = [
            (file, family.name)
            for family in source.manifest.column_families
            for file in family.files
            if Overlap.OUTSIDE not in (self._new_range.overlap(file), source_range.overlap(file))
        ]
        for file, family in sorted(wanted_files, key=lambda pair: pair[0].number):
            sequence_shift = self._sequence_shifts[source_rank] if file.level == 0 else 0
            renumbered_file = replace(
                file,
                number=self._new_file_number(),
                smallest_sequence=file.smallest_sequence + sequence_shift,
                largest_sequence=file.largest_sequence + sequence_shift,
                fields=tuple(field for field in file.fields if field[0] != FileTag.MIN_LOG_NUMBER_TO_KEEP),
            )
            families[family].append(_ReusedEntry(source_number, file, renumbered_file))

    def _new_file_number(self) -> int:
        self._next_file_number += 1
        return self._next_file_number - 1

    @staticmethod
    def _with_epochs(entries: list[_ReusedEntry]) -> list[LiveFile]:
        """Return the new MANIFEST entries of a column family; in level 0, epoch numbers rise from source to source."""
        epochs = [reused.after.epoch for reused in entries]
        if None in epochs:
            return [replace(reused.after, fields=_fields_without_epoch(reused.after)) for reused in entries]
        newest_epochs: Counter[int] = Counter()
        for reused, epoch in zip(entries, epochs, strict=True):
            newest_epochs[reused.source_number] = max(newest_epochs[reused.source_number], epoch or 0)
        epoch_shifts = dict(zip(newest_epochs, [0, *accumulate(newest_epochs.values())], strict=False))
        return [
            replace(
                reused.after, fields=_fields_with_epoch(reused.after, (epoch or 0) + epoch_shifts[reused.source_number])
            )
            if reused.after.level == 0
            else reused.after
            for reused, epoch in zip(entries, epochs, strict=True)
        ]

    def _tombstone_files(self, files: Sequence[LiveFile], creation_time: int) -> Iterator[LiveFile]:
        """Yield the entries of new files, whose range tombstones cover all rows outside of the wanted key groups.

        The entries have size 0, which the caller replaces.
        """
        begin, end = self._new_range.begin, self._new_range.end
        keys_below = [file.smallest_user_key for file in files if self._new_range.reaches_below(file)]
        keys_above = [file.largest_user_key for file in files if self._new_range.reaches_above(file)]
        ranges = [(min(keys_below), begin)] if keys_below else []
        ranges += [(end, max(keys_above) + b"\0")] if keys_above else []
        epochs = [file.epoch for file in files]
        newest_epoch = None if None in epochs else max((epoch or 0 for epoch in epochs), default=0)
        for age, (range_begin, range_end) in enumerate(ranges, 1):
            sequence, self._next_sequence = self._next_sequence, self._next_sequence + 1
            fields: list[tuple[int, bytes]] = [
                (FileTag.OLDEST_ANCESTOR_TIME, varint(creation_time)),
                (FileTag.CREATION_TIME, varint(creation_time)),
                *UNKNOWN_CHECKSUM_FIELDS,
            ]
            if newest_epoch is not None:
                fields.append((FileTag.EPOCH_NUMBER, varint(newest_epoch + age)))
            yield LiveFile(
                level=0,
                number=self._new_file_number(),
                size=0,
                smallest_key=InternalKey(range_begin, sequence, RANGE_DELETION),
                largest_key=InternalKey(range_end, LARGEST_SEQUENCE, RANGE_DELETION),
                smallest_sequence=sequence,
                largest_sequence=sequence,
                fields=tuple(fields),
            )

    def _check_levels(self, files: Sequence[LiveFile], state: str) -> None:
        """Check that no files of one level overlap, except in level 0: they would if two sources shared a key group."""
        sorted_files = sorted(files, key=lambda file: (file.level, file.smallest_key.order))
        for before, after in pairwise(sorted_files):
            if before.level == after.level > 0 and before.largest_key.order >= after.smallest_key.order:
                raise SnapshotError(
                    "two files of one level of a database overlap",
                    path=self._sources[0][1].uri,
                    state=state,
                    found=f"level {before.level}, up to {before.largest_user_key.hex()} and from "
                    f"{after.smallest_user_key.hex()} on",
                    advice=TAKE_ANOTHER_SNAPSHOT,
                )

    def _assembled(
        self, manifest: Manifest, reused_entries: Sequence[_ReusedEntry], new_files: Sequence[NewFile]
    ) -> AssembledDatabase:
        files = [ReusedFile(entry.after.name, entry.source_number, entry.before.name) for entry in reused_entries]
        for source_number, source in self._sources:
            if source.options_name is not None:
                files.append(ReusedFile(OPTIONS_NAME, source_number, source.options_name))
                break
        small_files = [
            NewFile(MANIFEST_NAME, write_manifest(manifest, MANIFEST_NAME)),
            NewFile(CURRENT, write_current(MANIFEST_NAME)),
        ]
        straddling_names = [
            entry.after.name for entry in reused_entries if self._new_range.overlap(entry.after) == Overlap.STRADDLING
        ]
        return AssembledDatabase(manifest, tuple(files), (*small_files, *new_files), tuple(straddling_names))


def _fields_without_epoch(file: LiveFile) -> tuple[tuple[int, bytes], ...]:
    return tuple(field for field in file.fields if field[0] != FileTag.EPOCH_NUMBER)


def _fields_with_epoch(file: LiveFile, epoch: int) -> tuple[tuple[int, bytes], ...]:
    return tuple((tag, varint(epoch) if tag == FileTag.EPOCH_NUMBER else value) for tag, value in file.fields)
