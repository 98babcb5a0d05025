"""The MANIFEST of a database that holds another one and changes of its rows, none of whose files is rewritten.

Changes are SST files of values and deletes. They go into the lowest level above all files of the database that they
change, and all their rows have one sequence number, which is newer than all of that database. RocksDB looks a key up
level by level and takes the first row that it meets; an iterator takes the one with the largest sequence number. So
each of the two alone would do, and both must say the same (`Version::Get`, `DBIter`).

The database that is changed begins in the last level. Each round of changes takes one more, up to level 1: level 0 is
left to RocksDB, which orders the files there by other rules (`RecoverEpochNumbers`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rescale.rocksdb.assembly.new_database import NewTable, check_apart, live_file
from rescale.rocksdb.database_layout import LEVELS, NUMBERS_LEFT
from rescale.rocksdb.manifest.manifest import DEFAULT_COLUMN_FAMILY, ColumnFamily, Manifest


class ChangesPlace(NamedTuple):
    """The level where changes of a database go, and the sequence number of their rows."""

    level: int
    sequence: int


def place_of_changes(base: Manifest) -> ChangesPlace | None:
    """None if there is no level left between level 0 and the files of `base`."""
    level = min((file.level for file in base.files.values()), default=LEVELS) - 1
    return ChangesPlace(level, base.last_sequence + 1) if level > 0 else None


def continued_manifest(
    base: Manifest, changes: Mapping[str, Sequence[NewTable]], place: ChangesPlace, created: int
) -> Manifest:
    """`base` with `changes` above it, by the names of all states of the new database.

    Files of `base` keep their names; those of states that are no longer there go. New files are numbered one state
    after the other, in the order of their keys. `created` is in seconds since 1970. `IntegrityError` if the new files
    of a state have keys in common.
    """
    before = {family.name: family.files for family in base.column_families}
    families, number = [ColumnFamily(0, DEFAULT_COLUMN_FAMILY, ())], base.next_file_number
    for state, tables in changes.items():
        check_apart(tables, state)
        new = tuple(
            live_file(number + i, table, created, level=place.level, sequence=place.sequence)
            for i, table in enumerate(tables)
        )
        number += len(new)
        families.append(ColumnFamily(len(families), state, (*new, *before.get(state, ()))))
    return Manifest(tuple(families), last_sequence=place.sequence, next_file_number=number - 1 + NUMBERS_LEFT)
