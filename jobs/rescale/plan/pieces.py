"""Pieces of new streams: ranges of bytes of the source, or literals in the plan itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rescale.snapshot.locate import WRITTEN_FILE_NUMBER, Extent


class Piece(NamedTuple):
    """A range of `length` bytes from `start` on, in the source file number `file` (None: in the plan's `literals`).

    `ids` is the number of the operator's table that translates state ids; None if the ids stay.
    """

    file: int | None
    start: int
    length: int
    ids: int | None = None


class Literals:
    """Collects the literals of the plan, such as merged headers and empty key groups; equal ones are stored once.

    The first literal is `Snapshot.written_bytes`, so that extents of those bytes become pieces with the same offsets.
    """

    def __init__(self, written_bytes: bytes = b"") -> None:
        self._data = bytearray(written_bytes)
        self._offsets: dict[bytes, int] = {}

    def add(self, data: bytes) -> Piece:
        """Add these bytes to the literals if they are new, and return their piece."""
        if data not in self._offsets:
            self._offsets[data] = len(self._data)
            self._data += data
        return Piece(None, self._offsets[data], len(data))

    def bytes(self) -> bytes:
        return bytes(self._data)


def merge_adjacent(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """Merge adjacent pieces and leave out empty ones; the result has the same bytes in the same order."""
    merged_pieces: list[Piece] = []
    for piece in pieces:
        last_piece = merged_pieces[-1] if merged_pieces else None
        if not piece.length:
            continue
        if (
            last_piece is not None
            and (last_piece.file, last_piece.ids) == (piece.file, piece.ids)
            and last_piece.start + last_piece.length == piece.start
        ):
            merged_pieces[-1] = Piece(
                last_piece.file, last_piece.start, last_piece.length + piece.length, last_piece.ids
            )
        else:
            merged_pieces.append(piece)
    return tuple(merged_pieces)


def piece_of(extent: Extent, id_table_number: int | None = None) -> Piece:
    """Return the piece for an extent of the snapshot; `id_table_number` becomes `Piece.ids`."""
    return Piece(
        None if extent.file == WRITTEN_FILE_NUMBER else extent.file, extent.start, extent.length, id_table_number
    )


def extent_of(piece: Piece) -> Extent:
    """Return the extent of a piece of a source file. Raises `ValueError` for a piece of literals."""
    if piece.file is None:
        raise ValueError("a piece of the plan's literals is not in a file")
    return Extent(piece.file, piece.start, piece.length)


def split(pieces: Iterable[Piece], lengths: Iterable[int]) -> Iterator[tuple[Piece, ...]]:
    """Cut the bytes of pieces into consecutive ranges of `lengths` bytes, and yield the pieces of each range."""
    queue = iter(pieces)
    remaining_piece: Piece | None = None
    for length in lengths:
        range_pieces = []
        while length > 0:
            piece = remaining_piece or next(queue)
            taken_bytes = min(length, piece.length)
            range_pieces.append(piece._replace(length=taken_bytes))
            remaining_length = piece.length - taken_bytes
            remaining_piece = (
                piece._replace(start=piece.start + taken_bytes, length=remaining_length) if remaining_length else None
            )
            length -= taken_bytes
        yield tuple(range_pieces)
