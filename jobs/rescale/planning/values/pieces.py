"""Pieces: what new streams are made of. Runs of bytes of the source, or literals that the plan itself brings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rescale.snapshot.locate import WRITTEN, Extent


class Piece(NamedTuple):
    """`length` bytes from `start` of source file number `file` (None: of the plan's own `literals`).

    `ids` is the number of the operator's table that translates state ids on the way, None where ids stay.
    """

    file: int | None
    start: int
    length: int
    ids: int | None = None


class Literals:
    """Bytes that the plan itself brings: merged headers, blocks of empty key groups. Equal ones are kept once.

    They begin with what is `written` of the snapshot, so that an extent of it is a piece of them.
    """

    def __init__(self, written: bytes = b"") -> None:
        self._data = bytearray(written)
        self._places: dict[bytes, int] = {}

    def piece(self, data: bytes) -> Piece:
        if data not in self._places:
            self._places[data] = len(self._data)
            self._data += data
        return Piece(None, self._places[data], len(data))

    def bytes(self) -> bytes:
        return bytes(self._data)


def joined(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """The same bytes in as few pieces as possible: neighbours in a file become one, empty pieces go."""
    result: list[Piece] = []
    for piece in pieces:
        last = result[-1] if result else None
        if not piece.length:
            continue
        if (
            last is not None
            and (last.file, last.ids) == (piece.file, piece.ids)
            and last.start + last.length == piece.start
        ):
            result[-1] = Piece(last.file, last.start, last.length + piece.length, last.ids)
        else:
            result.append(piece)
    return tuple(result)


def piece_of(extent: Extent, ids: int | None = None) -> Piece:
    return Piece(None if extent.file == WRITTEN else extent.file, extent.start, extent.length, ids)


def extent_of(piece: Piece) -> Extent:
    """The mirror of `piece_of`, of a piece of a file."""
    if piece.file is None:
        raise ValueError("a piece of the plan's own literals lies in no file")
    return Extent(piece.file, piece.start, piece.length)


def split(pieces: Iterable[Piece], lengths: Iterable[int]) -> Iterator[tuple[Piece, ...]]:
    """The pieces of consecutive runs of bytes, one tuple for each of `lengths`."""
    queue = iter(pieces)
    rest: Piece | None = None
    for length in lengths:
        run = []
        while length > 0:
            piece = rest or next(queue)
            taken = min(length, piece.length)
            run.append(piece._replace(length=taken))
            left = piece.length - taken
            rest = piece._replace(start=piece.start + taken, length=left) if left else None
            length -= taken
        yield tuple(run)
