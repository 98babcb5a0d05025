"""MANIFEST of a database that adds changes to a base database, without rewriting files of the base.

Changes are SST files of values and deletes. They go into the lowest level above all files of the base, and all their
rows have one sequence number, larger than all of the base. Both the level and the sequence number are needed: a lookup
searches level by level and takes the first row of the key (`Version::Get`), and an iterator takes the row with the
largest sequence number (`DBIter`).

A base has its rows in the last level. Each round of changes takes the next level above, up to level 1. Changes never go
into level 0, where RocksDB orders files by other rules (`RecoverEpochNumbers`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rescale.rocksdb.assembly.new_database import NewTable, check_disjoint, live_file
from rescale.rocksdb.database_layout import LEVELS, SPARE_FILE_NUMBERS
from rescale.rocksdb.manifest.manifest import DEFAULT_COLUMN_FAMILY, ColumnFamily, Manifest


class ChangesPlace(NamedTuple):
    """Level of the files of changes, and sequence number of all their rows."""

    level: int
    sequence: int


def place_of_changes(base: Manifest) -> ChangesPlace | None:
    """Return the place of the next changes of `base`; None if no level is free between level 0 and its files."""
    level = min((file.level for file in base.files.values()), default=LEVELS) - 1
    return ChangesPlace(level, base.last_sequence + 1) if level > 0 else None


def continued_manifest(
    base: Manifest, changes: Mapping[str, Sequence[NewTable]], place: ChangesPlace, created: int
) -> Manifest:
    """Return the MANIFEST of `base` with `changes` above it; `changes` maps all states to their new files.

    Files of `base` keep their names; files of states that the new database lacks are left out. New files are numbered
    state by state, in the order of their keys. `created` is in seconds since 1970. Raises `IntegrityError` if new files
    of a state overlap.
    """
    before = {family.name: family.files for family in base.column_families}
    families, number = [ColumnFamily(0, DEFAULT_COLUMN_FAMILY, ())], base.next_file_number
    for state, tables in changes.items():
        check_disjoint(tables, state)
        new = tuple(
            live_file(number + i, table, created, level=place.level, sequence=place.sequence)
            for i, table in enumerate(tables)
        )
        number += len(new)
        families.append(ColumnFamily(len(families), state, (*new, *before.get(state, ()))))
    return Manifest(tuple(families), last_sequence=place.sequence, next_file_number=number - 1 + SPARE_FILE_NUMBERS)
