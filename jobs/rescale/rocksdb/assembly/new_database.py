"""MANIFEST of a database that has new SST files only.

The files of a state do not overlap, so all of them go into the last level. All rows have the sequence number 0, which
RocksDB itself gives rows of the last level that have no older version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rescale.rocksdb.database_layout import FIRST_TABLE_NUMBER, LEVELS, SPARE_FILE_NUMBERS, UNKNOWN_CHECKSUM
from rescale.rocksdb.manifest.edit_reader import InternalKey
from rescale.rocksdb.manifest.edit_writer import varint
from rescale.rocksdb.manifest.manifest import DEFAULT_COLUMN_FAMILY, ColumnFamily, Manifest
from rescale.rocksdb.manifest.version_edit import VALUE, FileTag, LiveFile
from rescale.text.errors import IntegrityError


@dataclass(frozen=True)
class NewTable:
    """An SST file of `size` bytes with keys from `smallest` to `largest`; `kinds` has the `ValueType` of both rows."""

    size: int
    smallest: bytes
    largest: bytes
    kinds: tuple[int, int] = (VALUE, VALUE)


def new_manifest(tables: Mapping[str, Sequence[NewTable]], created: int) -> Manifest:
    """Return the MANIFEST of a new database; `tables` maps each state to its files, in the order of their keys.

    Files are numbered in this order, state by state; `created` is in seconds since 1970. Raises `IntegrityError` if
    files of a state overlap.
    """
    families, number = [ColumnFamily(0, DEFAULT_COLUMN_FAMILY, ())], FIRST_TABLE_NUMBER
    for state, state_tables in tables.items():
        check_disjoint(state_tables, state)
        files = tuple(live_file(number + i, table, created) for i, table in enumerate(state_tables))
        families.append(ColumnFamily(len(families), state, files))
        number += len(files)
    return Manifest(tuple(families), last_sequence=1, next_file_number=number - 1 + SPARE_FILE_NUMBERS)


def check_disjoint(tables: Sequence[NewTable], state: str) -> None:
    """Raise `IntegrityError` if the files of a state are not in the order of their keys, or have keys in common."""
    for before, after in pairwise(tables):
        if before.largest >= after.smallest:
            raise IntegrityError(
                "two new SST files have keys in common",
                state=state,
                expected=f"a key after {before.largest.hex()}",
                found=after.smallest.hex(),
            )


def live_file(number: int, table: NewTable, created: int, *, level: int = LEVELS - 1, sequence: int = 0) -> LiveFile:
    """Return the MANIFEST entry of file `number`, whose rows all have the sequence number `sequence`."""
    smallest, largest = table.kinds
    return LiveFile(
        level=level,
        number=number,
        size=table.size,
        smallest_key=InternalKey(table.smallest, sequence, smallest),
        largest_key=InternalKey(table.largest, sequence, largest),
        smallest_sequence=sequence,
        largest_sequence=sequence,
        fields=(
            (FileTag.OLDEST_ANCESTOR_TIME, varint(created)),
            (FileTag.CREATION_TIME, varint(created)),
            *UNKNOWN_CHECKSUM,
        ),
    )
