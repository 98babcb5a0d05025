"""A bounded sample of the keys in an operator's RocksDB directories, from a few blocks of evenly spaced SST files.

Overwritten and deleted rows are sampled, too: their keys also lie in the key groups of their hashes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from rescale.flink.key_groups import prefix_size
from rescale.flink.keyed.composite_key import key_offsets
from rescale.rocksdb.sst.table import TAIL_SIZE
from rescale.rocksdb.sst.table_blocks import TRAILER_SIZE
from rescale.snapshot.databases.live_tables import database_with_tables
from rescale.snapshot.databases.table_sizes import open_table
from rescale.snapshot.keyed_state import Database, LiveTable
from rescale.snapshot.model import Operator
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.storage.side_by_side import side_by_side
from rescale.text.errors import UnsupportedError

_MOST_TABLES, _MOST_BLOCKS_PER_TABLE = 64, 8
"""Largest number of SST files that are read for an operator, and of blocks that are read in each of them."""

_MOST_BASES = 16
"""Largest number of directories below a changelog whose MANIFEST is read."""


def database_keys(
    operator: Operator, files: SnapshotFiles, byte_budget: int, key_count: int
) -> Iterator[tuple[int, bytes]]:
    """Yield about `key_count` (key group, key) pairs from at most `byte_budget` bytes of SST files.

    Each key comes with the rest of its row's key, such as the namespace. Files that only RocksDB's library can read are
    left out. Raises `SnapshotError` for a damaged file.
    """
    prefix_length = prefix_size(operator.max_parallelism)
    tables = [
        (prefix_length + int(key_offsets(database.parsed)[table.state_id]), table)
        for database in (*operator.databases, *_changelog_bases(operator, files))
        if database.parsed is not None
        for table in database.tables
    ]
    chosen_tables = _in_spread_order(tables[:: -(-len(tables) // _MOST_TABLES)]) if tables else []
    for key_start, table in chosen_tables:
        byte_budget -= min(table.extent.length, TAIL_SIZE)
        if byte_budget < 0:
            return
        try:
            table_reader = open_table(table, files)
            if table_reader.index_size > byte_budget:
                continue
            byte_budget -= table_reader.index_size
            blocks = [entry.handle for entry in table_reader.index_entries()]
            for block in blocks[:: -(-len(blocks) // _MOST_BLOCKS_PER_TABLE)] if blocks else []:
                if block.size + TRAILER_SIZE > byte_budget:
                    continue
                byte_budget -= block.size + TRAILER_SIZE
                for row in islice(
                    table_reader.rows(block),
                    key_count // (len(chosen_tables) * min(len(blocks), _MOST_BLOCKS_PER_TABLE)) + 1,
                ):
                    yield int.from_bytes(row.key[:prefix_length], "big"), row.key[key_start:]
        except UnsupportedError:
            continue


def _changelog_bases(operator: Operator, files: SnapshotFiles) -> list[Database]:
    """Return evenly spaced directories below the operator's changelogs, with their tables."""
    parts = [part for changelog in operator.changelogs for part in changelog.base]
    bases = [part for part in parts if isinstance(part, Database) and part.parsed is not None]
    chosen_bases = bases[:: -(-len(bases) // _MOST_BASES)] if bases else []
    return side_by_side(lambda database: database_with_tables(files, operator, database), chosen_bases)


def _in_spread_order(keyed_tables: list[tuple[int, LiveTable]]) -> list[tuple[int, LiveTable]]:
    """Return the tables ordered by the reversed bits of their indexes, so that every prefix is evenly spaced."""
    return [keyed_tables[i] for i in sorted(range(len(keyed_tables)), key=lambda i: f"{i:016b}"[::-1])]
