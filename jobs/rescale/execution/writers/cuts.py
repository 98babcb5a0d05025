"""How a stream of copied bytes is cut into parts, so that the store can copy most of them by itself.

A store copies a range of one object into one part, and wants parts of some size. So a long piece is parts of its own,
and what is short between long ones (a header, the key groups of a small subtask) goes together with as much of the next
piece as a part needs. Cuts depend on the plan and on what kind of store it names, never on whether that store copies:
who must read and put what it refused to copy puts the same parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from rescale.execution.writers.parts import number_of_parts, part_limits, part_size
from rescale.planning.values.new_streams import CopiedElements, CopiedFile, CopiedKeyGroups, PlannedStream
from rescale.planning.values.pieces import Piece
from rescale.planning.values.plan import Plan
from rescale.storage.contract import Span
from rescale.storage.locations import is_s3

_WORTH_A_COPY = 5 * 1024 * 1024
"""Bytes: S3 takes no smaller parts, and copies no ranges of smaller objects."""

_LONGER = 4
"""How much longer parts are that the store copies: if it refuses, they have to fit into memory."""


class Cut(NamedTuple):
    """Bytes `start` to `start + length` of a stream."""

    start: int
    length: int


def whole_file(plan: Plan, stream: PlannedStream) -> Span | None:
    """The file of the source that the stream is a copy of, if the store may copy it as a whole."""
    if stream.inline or len(stream.pieces) != 1:
        return None
    span = _span(plan, stream, stream.pieces[0])
    return span if span is not None and is_copied_whole(plan, span) else None


def is_copied_whole(plan: Plan, span: Span) -> bool:
    """Whether it is a whole file of the target's store, which copies it at once."""
    whole = (span.start, span.length) == (0, span.pin.size)
    return whole and span.length <= copied_size(plan, span.length) and _in_one_store(plan, span.uri)


def part_of_a_file(plan: Plan, stream: PlannedStream, pieces: Sequence[Piece]) -> Span | None:
    """The range of a file of the source that the `pieces` of a part are, if the store may copy it."""
    if len(pieces) != 1 or pieces[0].length < _worth(plan, stream):
        return None
    return _span(plan, stream, pieces[0])


def cuts(plan: Plan, stream: PlannedStream) -> list[Cut]:
    """The parts of a stream that may be cut, in their order; none is small but the last."""
    most, worth = part_size(plan, stream.size), _worth(plan, stream)
    found: list[Cut] = []
    begin = at = 0
    for piece in stream.pieces:
        short = max(worth - (at - begin), 0) if at > begin else 0
        if piece.length - short >= worth and _span(plan, stream, piece) is not None:
            found += _between(begin, at + short, most)
            found += _of_piece(at + short, at + piece.length, copied_size(plan, stream.size))
            begin = at + piece.length
        at += piece.length
    return [*found, *(Cut(start, min(most, at - start)) for start in range(begin, at, most))]


def copied_size(plan: Plan, size: int) -> int:
    """Bytes that the store copies at once, of a file of `size` bytes."""
    return max(_LONGER * plan.part_size, part_size(plan, size))


def _worth(plan: Plan, stream: PlannedStream) -> int:
    """Bytes of a part that is worth a copy; so long that there are no more parts than a store takes."""
    many = -(-stream.size // (part_limits(plan).most // 2))
    return min(part_size(plan, stream.size), max(_WORTH_A_COPY, many))


def _span(plan: Plan, stream: PlannedStream, piece: Piece) -> Span | None:
    """Where a piece of a copied stream lies, if that is in the store of the target."""
    if piece.file is None or not isinstance(stream, CopiedKeyGroups | CopiedElements | CopiedFile):
        return None
    file = plan.files[piece.file]
    return Span(file.uri, piece.start, piece.length, file.pin) if _in_one_store(plan, file.uri) else None


def _in_one_store(plan: Plan, uri: str) -> bool:
    return is_s3(uri) == is_s3(plan.target)


def _between(begin: int, end: int, most: int) -> Iterator[Cut]:
    """What lies before a long piece, with its beginning."""
    last = number_of_parts(end - begin, most) - 1
    for i in range(last):
        yield Cut(begin + i * most, most)
    if begin < end:
        yield Cut(begin + last * most, end - begin - last * most)


def _of_piece(begin: int, end: int, most: int) -> Iterator[Cut]:
    """A long piece in parts of about the same size."""
    number = -(-(end - begin) // most)
    bounds = [begin + (end - begin) * i // number for i in range(number + 1)]
    for start, behind in pairwise(bounds):
        yield Cut(start, behind - start)
