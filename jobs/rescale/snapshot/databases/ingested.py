"""Which files of RocksDB directories were ingested: they tell a sequence number for all of their rows.

Where databases are joined, files of level 0 get other sequence numbers, which these cannot have (`SstFileWriter`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rescale.errors import RescaleError
from rescale.snapshot.databases.table_sizes import open_table
from rescale.snapshot.model import Database, Operator, Snapshot
from rescale.storage.side_by_side import side_by_side


def with_ingested(snapshot: Snapshot, wanted: Callable[[Operator], bool]) -> Snapshot:
    """The snapshot, where the sources of wanted operators say which of their files in level 0 were ingested.

    Their databases were looked through. The end of each such file is read; `SnapshotError` for a damaged one.
    """
    operators = tuple(_with_ingested(snapshot, one) if wanted(one) else one for one in snapshot.operators)
    return replace(snapshot, operators=operators)


def _with_ingested(snapshot: Snapshot, operator: Operator) -> Operator:
    try:
        found = side_by_side(lambda database: _of_database(snapshot, database), operator.databases)
    except RescaleError as error:
        raise error.located(operator=operator.label) from None
    return replace(operator, databases=tuple(found))


def _of_database(snapshot: Snapshot, database: Database) -> Database:
    assert database.source is not None
    ingested = frozenset(
        table.file.name
        for table in database.tables
        if table.file.level == 0 and open_table(table, snapshot.contents).properties.global_sequence
    )
    return replace(database, source=replace(database.source, ingested=ingested))
