"""A database that is nothing but new SST files: its MANIFEST.

The files of a state lie end to end, in the order of their keys, so all of them go into the last level, where nothing
is older. Their rows have the sequence number 0, as RocksDB itself gives to what no other row can contradict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rescale.errors import IntegrityError
from rescale.rocksdb.database_layout import FIRST_TABLE, LEVELS, NUMBERS_LEFT, UNKNOWN_CHECKSUM
from rescale.rocksdb.manifest.edit_reader import InternalKey
from rescale.rocksdb.manifest.edit_writer import varint
from rescale.rocksdb.manifest.manifest import DEFAULT_COLUMN_FAMILY, ColumnFamily, Manifest
from rescale.rocksdb.manifest.version_edit import VALUE, FileTag, LiveFile


@dataclass(frozen=True)
class NewTable:
    """An SST file of `size` bytes with rows from the key `smallest` to the key `largest`."""

    size: int
    smallest: bytes
    largest: bytes


def manifest_of(tables: Mapping[str, Sequence[NewTable]], created: int) -> Manifest:
    """The MANIFEST of a database with these states, each with its files in the order of their keys.

    The files are numbered in that order, one state after the other; `created` is in seconds since 1970.
    `IntegrityError` if the files of a state have keys in common.
    """
    families, number = [ColumnFamily(0, DEFAULT_COLUMN_FAMILY, ())], FIRST_TABLE
    for state, found in tables.items():
        for one, other in pairwise(found):
            if one.largest >= other.smallest:
                raise IntegrityError(
                    "two new SST files have keys in common",
                    state=state,
                    expected=f"a key behind {one.largest.hex()}",
                    found=other.smallest.hex(),
                )
        files = tuple(_live_file(number + i, table, created) for i, table in enumerate(found))
        families.append(ColumnFamily(len(families), state, files))
        number += len(files)
    return Manifest(tuple(families), last_sequence=1, next_file_number=number - 1 + NUMBERS_LEFT)


def _live_file(number: int, table: NewTable, created: int) -> LiveFile:
    return LiveFile(
        level=LEVELS - 1,
        number=number,
        size=table.size,
        smallest_key=InternalKey(table.smallest, 0, VALUE),
        largest_key=InternalKey(table.largest, 0, VALUE),
        smallest_sequence=0,
        largest_sequence=0,
        fields=(
            (FileTag.OLDEST_ANCESTOR_TIME, varint(created)),
            (FileTag.CREATION_TIME, varint(created)),
            *UNKNOWN_CHECKSUM,
        ),
    )
