"""RocksDB directories, copied file by file: a snapshot in its own shape, in another place.

Whatever the handles of the source say, those of the copy are relative, so that it can be moved again, and private, so
that no checkpoint of the restored job refers to them (`IncrementalRemoteKeyedStateHandle`).
"""

from __future__ import annotations

from rescale.errors import UnsupportedError
from rescale.planning.inline import InlineBudget
from rescale.planning.new_streams import META_STREAM, CopiedFile, NewDatabase
from rescale.planning.operator_shapes import Shape
from rescale.planning.pieces import piece_of
from rescale.snapshot.model import Database, Operator


def copied_databases(
    operator: Operator, shape: Shape, inline: InlineBudget
) -> tuple[tuple[NewDatabase, ...], list[CopiedFile]]:
    """The same databases in the same subtasks; `UnsupportedError` for a new shape."""
    entry = operator.entry
    if operator.databases and shape != Shape(entry.parallelism, entry.max_parallelism):
        raise UnsupportedError(
            "RocksDB directories are copied as they are, and not given another shape",
            operator=operator.label,
            expected=f"parallelism {entry.parallelism} and max parallelism {entry.max_parallelism}",
            found=f"parallelism {shape.parallelism} and max parallelism {shape.max_parallelism}",
            advice="ask for --format canonical, which every state backend but ForSt restores",
        )
    databases = tuple(NewDatabase(d.subtask, d.key_groups.first, len(d.key_groups)) for d in operator.databases)
    return databases, [stream for database in operator.databases for stream in _streams(database, inline)]


def _streams(database: Database, inline: InlineBudget) -> list[CopiedFile]:
    files = [(META_STREAM, database.header_extent), *database.files]
    return [
        CopiedFile(
            subtask=database.subtask,
            pieces=(piece_of(extent),) if extent.length else (),
            inline=inline.takes(extent.length),
            local_name=name,
        )
        for name, extent in files
    ]
