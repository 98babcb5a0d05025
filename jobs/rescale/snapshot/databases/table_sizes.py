"""Estimates the bytes of RocksDB directories in each key group, from the key ranges and indexes of SST files.

A MANIFEST has the smallest and the largest key of every file. Most files of large state lie in one key group. For the
largest of the other files, the index tells how the blocks are spread over the key groups. The bytes of all remaining
files count as spread evenly over the key groups of the file. Overwritten and deleted rows count, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rescale.flink.arrays import Longs
from rescale.flink.key_groups import KeyGroupRange, prefix_size
from rescale.rocksdb.manifest.version_edit import LiveFile
from rescale.rocksdb.sst.table import SstTable
from rescale.snapshot.keyed_state import LiveTable
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.storage.side_by_side import side_by_side
from rescale.text.errors import RescaleError, UnsupportedError

MOST_INDEXES = 32
"""Largest number of SST indexes that are read for a snapshot."""

LARGEST_INDEX_BYTES = 512 * 1024
"""Largest stored size in bytes of an index that is read, so that the indexes of a snapshot take at most 16 MiB."""


class BlockRuns(NamedTuple):
    """Runs of blocks in an SST file: the first and the last key group of each run, and its bytes."""

    first_key_groups: Longs
    last_key_groups: Longs
    sizes: Longs


def with_key_group_sizes(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with the sizes of its databases by key group. Raises `SnapshotError` for a damaged index."""
    wide_tables = [
        (operator, table)
        for operator in snapshot.operators
        for database in operator.databases
        for table in database.tables
        if len(_key_groups(table.file, prefix_size(operator.max_parallelism))) > 1
    ]
    chosen_tables = sorted(wide_tables, key=lambda pair: (-pair[1].extent.length, pair[1].extent))[:MOST_INDEXES]
    chosen_runs = side_by_side(lambda pair: _block_runs(*pair, snapshot.contents), chosen_tables)
    runs_by_table = {
        table: table_runs
        for (_, table), table_runs in zip(chosen_tables, chosen_runs, strict=True)
        if table_runs is not None
    }
    return replace(
        snapshot, operators=tuple(_measured_operator(operator, runs_by_table) for operator in snapshot.operators)
    )


def open_table(table: LiveTable, files: SnapshotFiles) -> SstTable:
    """Open an SST file of a directory; `files` are the snapshot's files."""
    return open_extent(table.extent, files)


def open_extent(extent: Extent, files: SnapshotFiles) -> SstTable:
    """Open the SST file that lies in an extent of one of the snapshot's `files`."""

    def read(start: int, size: int) -> bytes:
        return files.read(extent.part(start, size), limit=size)  # `SstTable` bounds the size of its reads

    return SstTable(read, extent.length, files.uri(extent), extent.start)


def _measured_operator(operator: Operator, runs_by_table: Mapping[LiveTable, BlockRuns]) -> Operator:
    prefix_length = prefix_size(operator.max_parallelism)
    databases = []
    for database in operator.databases:
        key_group_bytes = np.zeros(1 << 8 * prefix_length, np.int64)
        for table in database.tables:
            _add_file_bytes(
                key_group_bytes,
                table.extent.length,
                runs_by_table.get(table) or _one_run(_key_groups(table.file, prefix_length)),
            )
        key_groups = database.key_groups
        databases.append(
            replace(database, measured_sizes=tuple(key_group_bytes[key_groups.first : key_groups.last + 1].tolist()))
        )
    return replace(operator, databases=tuple(databases))


def _add_file_bytes(key_group_bytes: Longs, file_bytes: int, runs: BlockRuns) -> None:
    """Add the bytes of a file to `key_group_bytes`, in proportion to each key group's share of the blocks."""
    bytes_per_key_group = (
        file_bytes * runs.sizes // (int(runs.sizes.sum()) * (runs.last_key_groups - runs.first_key_groups + 1))
    )
    is_narrow = runs.first_key_groups == runs.last_key_groups
    np.add.at(key_group_bytes, runs.first_key_groups[is_narrow], bytes_per_key_group[is_narrow])
    wide_runs = (
        column[~is_narrow].tolist() for column in (runs.first_key_groups, runs.last_key_groups, bytes_per_key_group)
    )
    for first, last, added_bytes in zip(*wide_runs, strict=True):
        key_group_bytes[first : last + 1] += added_bytes


def _one_run(key_groups: KeyGroupRange) -> BlockRuns:
    return BlockRuns(*(np.array([value], np.int64) for value in (key_groups.first, key_groups.last, 1)))


def _block_runs(operator: Operator, table: LiveTable, files: SnapshotFiles) -> BlockRuns | None:
    """Return first and last key group and size of each block of a file; None if they are unknown.

    They are unknown if the index is too large, lists no block, or only RocksDB's library can read it.
    """
    prefix_length = prefix_size(operator.max_parallelism)
    try:
        table_reader = open_table(table, files)
        if table_reader.index_size > LARGEST_INDEX_BYTES:
            return None
        separator_groups, sizes = table_reader.key_groups_of_blocks(prefix_length)
    except UnsupportedError:
        return None
    except RescaleError as error:
        raise error.located(operator=operator.label) from None
    if not len(sizes):
        return None
    key_groups = _key_groups(table.file, prefix_length)
    last_key_groups = np.minimum(np.maximum.accumulate(np.maximum(separator_groups, key_groups.first)), key_groups.last)
    return BlockRuns(np.append(key_groups.first, last_key_groups[:-1]), last_key_groups, sizes)


def _key_groups(file: LiveFile, prefix_length: int) -> KeyGroupRange:
    first, last = _key_group(file.smallest_user_key, prefix_length), _key_group(file.largest_user_key, prefix_length)
    excludes_last = file.is_largest_exclusive and len(file.largest_user_key) <= prefix_length and last > first
    return KeyGroupRange(first, last - 1 if excludes_last else last)


def _key_group(key: bytes, prefix_length: int) -> int:
    """Return the key group of a key, or of a separator shorter than a key group."""
    return int.from_bytes(key[:prefix_length].ljust(prefix_length, b"\0"), "big")
