"""Cuts of a copied stream into parts, chosen so that the store itself can copy most of them.

A store copies a range of one object into one part, and requires a minimal part size. So a long piece gets its own
parts, and short pieces between long ones (a header, the key groups of a small subtask) share a part with the beginning
of the next piece. Cuts depend on the plan and the kind of store, never on whether the store agrees to copy: if it
refuses, the task reads and writes the same parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from rescale.execution.writers.files import number_of_parts, part_limits, part_size
from rescale.plan.new_streams import CopiedElements, CopiedFile, CopiedKeyGroups, PlannedStream
from rescale.plan.pieces import Piece
from rescale.plan.plan import Plan
from rescale.storage.contract import Span
from rescale.storage.sides import is_one_store

_SMALLEST_COPY_BYTES = 5 * 1024 * 1024
"""Smallest part that is copied, in bytes: S3 takes no smaller parts, and copies no ranges of smaller objects."""

_COPIED_SIZE_FACTOR = 4
"""Size of a part that the store copies, as a multiple of a part that a task writes.

If the store refuses the copy, a task holds the part in memory.
"""


class Cut(NamedTuple):
    """Bytes `start` to `start + length` of a stream."""

    start: int
    length: int


def whole_file(plan: Plan, stream: PlannedStream) -> Span | None:
    """Return the file of the source that the stream copies, if the store may copy it as a whole."""
    if stream.inline or len(stream.pieces) != 1:
        return None
    span = _source_span(plan, stream, stream.pieces[0])
    return span if span is not None and is_copied_whole(plan, span) else None


def is_copied_whole(plan: Plan, span: Span) -> bool:
    """Return whether the span is a whole file in the target's store that one request can copy."""
    return span.is_whole and span.length <= copied_size(plan, span.length) and is_one_store(span.uri, plan.target)


def part_of_a_file(plan: Plan, stream: PlannedStream, pieces: Sequence[Piece]) -> Span | None:
    """Return the range of a source file that the `pieces` of a part make up, if the store may copy it."""
    if len(pieces) != 1 or pieces[0].length < _smallest_copy_size(plan, stream):
        return None
    return _source_span(plan, stream, pieces[0])


def cuts(plan: Plan, stream: PlannedStream) -> list[Cut]:
    """Return the parts into which a stream is cut, in order; only the last one may be small."""
    size_of_parts, smallest_copy_size = part_size(plan, stream.size), _smallest_copy_size(plan, stream)
    parts: list[Cut] = []
    begin = at = 0
    for piece in stream.pieces:
        missing_bytes = max(smallest_copy_size - (at - begin), 0) if at > begin else 0
        if piece.length - missing_bytes >= smallest_copy_size and _source_span(plan, stream, piece) is not None:
            parts += _cut_short_pieces(begin, at + missing_bytes, size_of_parts)
            parts += _cut_piece(at + missing_bytes, at + piece.length, copied_size(plan, stream.size))
            begin = at + piece.length
        at += piece.length
    return [*parts, *(Cut(start, min(size_of_parts, at - start)) for start in range(begin, at, size_of_parts))]


def copied_size(plan: Plan, size: int) -> int:
    """Return the size of the parts that the store copies, for a file of `size` bytes."""
    return max(_COPIED_SIZE_FACTOR * plan.part_size, part_size(plan, size))


def _smallest_copy_size(plan: Plan, stream: PlannedStream) -> int:
    """Return the smallest size of a copied part, so that the stream has at most half of the store's limit of parts."""
    least_size = -(-stream.size // (part_limits(plan).most_parts // 2))
    return min(part_size(plan, stream.size), max(_SMALLEST_COPY_BYTES, least_size))


def _source_span(plan: Plan, stream: PlannedStream, piece: Piece) -> Span | None:
    """Return the span of the source with the bytes of a piece; None if no copy within one store can make the piece."""
    if piece.file is None or not isinstance(stream, CopiedKeyGroups | CopiedElements | CopiedFile):
        return None
    file = plan.files[piece.file]
    return Span(file.uri, piece.start, piece.length, file.pin) if is_one_store(file.uri, plan.target) else None


def _cut_short_pieces(begin: int, end: int, part_size: int) -> Iterator[Cut]:
    """Yield the parts of a run of short pieces and of the beginning of the long piece after them."""
    full_part_count = number_of_parts(end - begin, part_size) - 1
    for i in range(full_part_count):
        yield Cut(begin + i * part_size, part_size)
    if begin < end:
        yield Cut(begin + full_part_count * part_size, end - begin - full_part_count * part_size)


def _cut_piece(begin: int, end: int, part_size: int) -> Iterator[Cut]:
    """Yield the parts of a long piece, which have about the same size."""
    part_count = -(-(end - begin) // part_size)
    bounds = [begin + (end - begin) * i // part_count for i in range(part_count + 1)]
    for start, end_of_part in pairwise(bounds):
        yield Cut(start, end_of_part - start)
