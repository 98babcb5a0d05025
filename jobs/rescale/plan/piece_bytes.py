"""Reads the bytes of a plan's pieces: from the source, or from literals in the plan itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rescale.plan.pieces import Piece, extent_of
from rescale.plan.plan import Plan


def piece_chunks(plan: Plan, pieces: Iterable[Piece], bytes_at_once: int | None = None) -> Iterator[bytes]:
    """Yield the bytes of the pieces, each literal as one chunk.

    Chunks of the source have at most `bytes_at_once` bytes (default: the plan's chunk size).
    """
    for piece in pieces:
        if piece.file is None:
            yield _literal_bytes(plan, piece)
        else:
            yield from plan.contents.chunks(extent_of(piece), bytes_at_once or plan.chunk_size)


def read_piece(plan: Plan, piece: Piece) -> tuple[str, bytes]:
    """Return the URI and the bytes of a small piece, such as a header; the URI of a literal is that of the target."""
    if piece.file is None:
        return plan.target, _literal_bytes(plan, piece)
    extent = extent_of(piece)
    return plan.contents.uri(extent), plan.contents.read(extent)


def _literal_bytes(plan: Plan, piece: Piece) -> bytes:
    return plan.literals[piece.start : piece.start + piece.length]
