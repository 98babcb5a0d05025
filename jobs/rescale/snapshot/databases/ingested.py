"""Search for ingested files in RocksDB directories. All rows of an ingested file have one sequence number.

When databases are joined, level-0 files get new sequence numbers in the MANIFEST. Ingested files cannot get one,
because they store their sequence number themselves (`SstFileWriter`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rescale.snapshot.databases.table_sizes import open_table
from rescale.snapshot.keyed_state import Database
from rescale.snapshot.model import Operator, Snapshot
from rescale.storage.side_by_side import side_by_side
from rescale.text.errors import located


def with_ingested_files(snapshot: Snapshot, is_wanted: Callable[[Operator], bool]) -> Snapshot:
    """Return the snapshot with the ingested level-0 files of the wanted operators marked.

    The MANIFESTs of these operators must have been read. The function reads the end of each level-0 file, and raises
    `SnapshotError` if such a file is damaged.
    """
    operators = tuple(_operator_with_ingested_files(snapshot, op) if is_wanted(op) else op for op in snapshot.operators)
    return replace(snapshot, operators=operators)


def _operator_with_ingested_files(snapshot: Snapshot, operator: Operator) -> Operator:
    with located(operator=operator.label):
        databases = side_by_side(lambda database: _database_with_ingested_files(snapshot, database), operator.databases)
    return replace(operator, databases=tuple(databases))


def _database_with_ingested_files(snapshot: Snapshot, database: Database) -> Database:
    assert database.source is not None
    ingested_names = frozenset(
        table.file.name
        for table in database.tables
        if table.file.level == 0 and open_table(table, snapshot.contents).properties.global_sequence
    )
    return replace(database, source=replace(database.source, ingested_names=ingested_names))
