"""How many bytes of RocksDB directories lie in each key group, by the key ranges and indexes of their SST files.

A MANIFEST says which keys a file begins and ends with. Most files of large state lie in one key group; of the largest
others the index tells how their blocks are spread, and what remains counts as spread evenly over a file's key groups.
What was overwritten or deleted counts as long as it is there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from rescale.errors import RescaleError, UnsupportedError
from rescale.flink.key_groups import KeyGroupRange, prefix_size
from rescale.rocksdb.manifest.version_edit import LiveFile
from rescale.rocksdb.sst.table import SstTable
from rescale.snapshot.model import LiveTable, Operator, Snapshot
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.storage.side_by_side import side_by_side

MOST_INDEXES = 32
LARGEST_INDEX = 512 * 1024
"""Bytes of one as it is stored. So at most 16 MiB are read of an operator."""

Sizes = defaultdict[int, int]
"""Bytes by key group."""


class Run(NamedTuple):
    """Bytes of a file that may belong to any of some key groups."""

    key_groups: KeyGroupRange
    size: int


def with_key_group_sizes(snapshot: Snapshot) -> Snapshot:
    """The snapshot with its databases measured; `SnapshotError` for a damaged index."""
    return replace(snapshot, operators=tuple(_measured(one, snapshot.contents) for one in snapshot.operators))


def open_table(table: LiveTable, files: SnapshotFiles) -> SstTable:
    """`files` are those of the snapshot."""
    extent = table.extent

    def read(at: int, size: int) -> bytes:
        return files.read(extent.part(at, size), limit=size)  # a `SstTable` bounds what it asks for

    return SstTable(read, extent.length, files.uri(extent), extent.start)


def _measured(operator: Operator, files: SnapshotFiles) -> Operator:
    prefix = prefix_size(operator.max_parallelism)
    tables = [table for database in operator.databases for table in database.tables]
    wide = [table for table in tables if len(_key_groups(table.file, prefix)) > 1]
    chosen = sorted(wide, key=lambda table: (-table.extent.length, table.extent))[:MOST_INDEXES]
    try:
        looked_into = dict(zip(chosen, side_by_side(lambda table: _blocks(table, files, prefix), chosen), strict=True))
    except RescaleError as error:
        raise error.located(operator=operator.label) from None
    databases = []
    for database in operator.databases:
        sizes: Sizes = defaultdict(int)
        for table in database.tables:
            whole = Run(_key_groups(table.file, prefix), table.extent.length)
            _add(sizes, table.extent.length, looked_into.get(table) or [whole])
        measured = tuple(sizes[key_group] for key_group in database.key_groups)
        databases.append(replace(database, measured=measured))
    return replace(operator, databases=tuple(databases))


def _add(sizes: Sizes, length: int, runs: Sequence[Run]) -> None:
    """The bytes of a file, each key group's as many as it has of the blocks."""
    total = sum(run.size for run in runs)
    for key_groups, size in runs:
        for key_group in key_groups:
            sizes[key_group] += length * size // (total * len(key_groups))


def _blocks(table: LiveTable, files: SnapshotFiles, prefix: int) -> list[Run]:
    """The blocks of a file; none where the index is too large, or one that only RocksDB reads."""
    try:
        opened = open_table(table, files)
        entries = list(opened.index()) if opened.index_size <= LARGEST_INDEX else []
    except UnsupportedError:
        return []
    within = _key_groups(table.file, prefix)
    first, runs = within.first, []
    for separator, block in entries:
        last = min(max(_key_group(separator, prefix), first), within.last)
        runs.append(Run(KeyGroupRange(first, last), block.size))
        first = last
    return runs


def _key_groups(file: LiveFile, prefix: int) -> KeyGroupRange:
    first, last = _key_group(file.smallest, prefix), _key_group(file.largest, prefix)
    ends_before = file.exclusive and len(file.largest) <= prefix and last > first
    return KeyGroupRange(first, last - 1 if ends_before else last)


def _key_group(key: bytes, prefix: int) -> int:
    """Of a key, or of what stands for one and may be shorter."""
    return int.from_bytes(key[:prefix].ljust(prefix, b"\0"), "big")
