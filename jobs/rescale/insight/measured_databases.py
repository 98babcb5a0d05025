"""RocksDB directories, looked through as far as insight needs it: their MANIFESTs, and indexes of their SST files."""

from __future__ import annotations

from rescale.errors import SnapshotError, UnsupportedError
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.model import Snapshot


def with_measured_databases(snapshot: Snapshot) -> Snapshot:
    """The snapshot with its databases measured; as it is where that was done, or cannot be."""
    databases = [database for operator in snapshot.operators for database in operator.databases]
    if not databases or any(database.measured for database in databases):
        return snapshot
    from rescale.snapshot.databases.table_sizes import with_key_group_sizes  # brings numpy, which few snapshots need

    try:
        return with_key_group_sizes(with_tables(snapshot))
    except (SnapshotError, UnsupportedError):
        return snapshot  # a run that has to understand the rows will say why it does not
