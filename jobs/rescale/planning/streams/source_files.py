"""State of the source as a plan refers to it: by where its bytes lie."""

from __future__ import annotations

from rescale.planning.values.new_streams import SourceFiles
from rescale.planning.values.pieces import piece_of
from rescale.snapshot.model import Database, KeyedStream


def source_files(database: Database) -> SourceFiles:
    return SourceFiles(
        (database.key_groups.first, database.key_groups.last),
        piece_of(database.header_extent),
        tuple((file.name, piece_of(file.extent)) for file in database.files),
    )


def group_places(stream: KeyedStream) -> tuple[tuple[int, int] | None, ...]:
    """For each key group where it begins in the file, and its length in bytes; None for one that is absent."""
    return tuple(None if group is None else (group.start, group.length) for group in stream.groups)
