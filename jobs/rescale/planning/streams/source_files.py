"""The places of the source's state, as a plan refers to them: file, offset and length."""

from __future__ import annotations

from rescale.plan.new_streams import SourceFiles
from rescale.plan.pieces import piece_of
from rescale.snapshot.model import Database, KeyedStream


def source_files(database: Database) -> SourceFiles:
    """Return the key groups, the header and the files of a RocksDB directory."""
    return SourceFiles(
        (database.key_groups.first, database.key_groups.last),
        piece_of(database.header_extent),
        tuple((file.name, piece_of(file.extent)) for file in database.files),
    )


def group_places(stream: KeyedStream) -> tuple[tuple[int, int] | None, ...]:
    """Return the offset and the length of each key group in its file, in bytes; None for an absent key group."""
    return tuple(None if group is None else (group.start, group.length) for group in stream.groups)
