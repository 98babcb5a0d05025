"""The bytes of a plan's pieces: of the source, or literals that the plan itself brings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rescale.planning.values.pieces import Piece, extent_of
from rescale.planning.values.plan import Plan


def piece_chunks(plan: Plan, pieces: Iterable[Piece], at_once: int | None = None) -> Iterator[bytes]:
    """The bytes of the pieces in chunks of at most `at_once` bytes (default: the plan's chunk size)."""
    for piece in pieces:
        if piece.file is None:
            yield _literal(plan, piece)
        else:
            yield from plan.contents.chunks(extent_of(piece), at_once or plan.chunk_size)


def read_piece(plan: Plan, piece: Piece) -> tuple[str, bytes]:
    """Where it lies, and all its bytes: a header's, which are few."""
    if piece.file is None:
        return plan.target, _literal(plan, piece)
    extent = extent_of(piece)
    return plan.contents.uri(extent), plan.contents.read(extent)


def _literal(plan: Plan, piece: Piece) -> bytes:
    return plan.literals[piece.start : piece.start + piece.length]
