"""Makes the MANIFEST of a database of new SST files, alone or as changes above the files of a base database.

New files of a state do not overlap. Without a base, all new files go into the last level, and all rows have the
sequence number 0. RocksDB itself gives this number to rows of the last level that have no older version.

Changes are SST files of values and deletes. They go into the lowest level above all files of the base, and all their
rows have one sequence number, larger than all sequence numbers of the base. Both the level and the sequence number are
needed. A lookup searches level by level and takes the first row of the key (`Version::Get`). An iterator takes the row
with the largest sequence number (`DBIter`).

A base has its rows in the last level. The first changes take the next level above, later changes the level above that,
up to level 1. Changes never go into level 0, where RocksDB orders files by other rules (`RecoverEpochNumbers`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from rescale.rocksdb.database_layout import FIRST_TABLE_NUMBER, LEVEL_COUNT, SPARE_FILE_NUMBERS, UNKNOWN_CHECKSUM_FIELDS
from rescale.rocksdb.manifest.edit_reader import InternalKey
from rescale.rocksdb.manifest.edit_writer import varint
from rescale.rocksdb.manifest.manifest import DEFAULT_COLUMN_FAMILY, ColumnFamily, Manifest
from rescale.rocksdb.manifest.version_edit import VALUE, FileTag, LiveFile
from rescale.text.errors import IntegrityError

_EMPTY_MANIFEST = Manifest((), last_sequence=0, next_file_number=FIRST_TABLE_NUMBER)


@dataclass(frozen=True)
class NewTable:
    """An SST file of `size` bytes. `bound_kinds` are the `ValueType`s of its first and last row."""

    size: int
    smallest_key: bytes
    largest_key: bytes
    bound_kinds: tuple[int, int] = (VALUE, VALUE)


class ChangesPlace(NamedTuple):
    """Level of the files of changes, and sequence number of all their rows."""

    level: int
    sequence: int


def new_manifest(tables: Mapping[str, Sequence[NewTable]], creation_time: int) -> Manifest:
    """Return the MANIFEST of a new database without a base; arguments and errors are those of `continued_manifest`."""
    return replace(
        continued_manifest(_EMPTY_MANIFEST, tables, ChangesPlace(LEVEL_COUNT - 1, 0), creation_time), last_sequence=1
    )


def place_of_changes(base: Manifest) -> ChangesPlace | None:
    """Return the place of the next changes; None if no level between level 0 and the files of `base` is free."""
    level = min((file.level for file in base.files.values()), default=LEVEL_COUNT) - 1
    return ChangesPlace(level, base.last_sequence + 1) if level > 0 else None


def continued_manifest(
    base: Manifest, tables: Mapping[str, Sequence[NewTable]], place: ChangesPlace, creation_time: int
) -> Manifest:
    """Return the MANIFEST `base` with new files above its own.

    `tables` maps the name of each state to its new files, in the order of their keys. Files of `base` keep their names;
    files of states that are not in `tables` are left out. New files are numbered in order, state by state.
    `creation_time` is in seconds since 1970. Raises `IntegrityError` if new files of a state overlap.
    """
    files_by_state = {family.name: family.files for family in base.column_families}
    families, file_number = [ColumnFamily(0, DEFAULT_COLUMN_FAMILY, ())], base.next_file_number
    for state, state_tables in tables.items():
        _check_disjoint(state_tables, state)
        new_files = tuple(
            _live_file(file_number + i, table, place, creation_time) for i, table in enumerate(state_tables)
        )
        file_number += len(new_files)
        families.append(ColumnFamily(len(families), state, (*new_files, *files_by_state.get(state, ()))))
    return Manifest(
        tuple(families), last_sequence=place.sequence, next_file_number=file_number - 1 + SPARE_FILE_NUMBERS
    )


def _check_disjoint(tables: Sequence[NewTable], state: str) -> None:
    for before, after in pairwise(tables):
        if before.largest_key >= after.smallest_key:
            raise IntegrityError(
                "two new SST files overlap",
                state=state,
                expected=f"a key after {before.largest_key.hex()}",
                found=after.smallest_key.hex(),
            )


def _live_file(file_number: int, table: NewTable, place: ChangesPlace, creation_time: int) -> LiveFile:
    first_kind, last_kind = table.bound_kinds
    return LiveFile(
        level=place.level,
        number=file_number,
        size=table.size,
        smallest_key=InternalKey(table.smallest_key, place.sequence, first_kind),
        largest_key=InternalKey(table.largest_key, place.sequence, last_kind),
        smallest_sequence=place.sequence,
        largest_sequence=place.sequence,
        fields=(
            (FileTag.OLDEST_ANCESTOR_TIME, varint(creation_time)),
            (FileTag.CREATION_TIME, varint(creation_time)),
            *UNKNOWN_CHECKSUM_FIELDS,
        ),
    )
