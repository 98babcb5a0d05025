"""Writers of planned streams, by the type of the stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, assert_never

from rescale.execution.sources.chunks import Chunk, runs
from rescale.execution.writers.sink import Sink
from rescale.flink.encoding.snappy import FramedDecompressor, compressed, decompressed
from rescale.flink.keyed.blocks.canonical import translated_key_group
from rescale.plan.new_streams import (
    CheckedElements,
    CopiedElements,
    CopiedFile,
    CopiedKeyGroups,
    PlannedStream,
    TranslatedKeyGroups,
)
from rescale.plan.operator_plan import OperatorPlan
from rescale.plan.piece_bytes import piece_chunks
from rescale.plan.pieces import Piece, split
from rescale.plan.plan import Plan
from rescale.text.errors import SnapshotError


class StreamWriter(Protocol):
    """Writes one stream as a whole, and says whether tasks may write its parts instead."""

    @property
    def size(self) -> int | None:
        """Bytes that `write` will write; None if unknown beforehand."""

    @property
    def may_be_cut(self) -> bool:
        """Whether several tasks may write parts of the stream, because each part is a copy of the stream's pieces."""

    def write(self, sink: Sink) -> tuple[int, ...]:
        """Write the whole stream; return the lengths of its key groups as written, -1 for absent ones."""


@dataclass(frozen=True)
class CopyingWriter:
    """Copies runs of bytes of the source, end to end."""

    plan: Plan
    stream: CopiedKeyGroups | CopiedElements | CopiedFile

    may_be_cut = True

    @property
    def size(self) -> int:
        return self.stream.size

    def write(self, sink: Sink) -> tuple[int, ...]:
        for chunk in piece_chunks(self.plan, self.stream.pieces):
            sink.write(chunk)
        return self.stream.key_groups


@dataclass(frozen=True)
class TranslatingWriter:
    """Reads, translates and writes key groups whose state ids change.

    The length of a compressed key group changes with its ids, so the stream's size is not known beforehand.
    """

    plan: Plan
    operator: OperatorPlan
    stream: TranslatedKeyGroups

    may_be_cut = False
    size = None

    def write(self, sink: Sink) -> tuple[int, ...]:
        stream = self.stream
        key_group_lengths = []
        sizes = (stream.header_size, *(max(length, 0) for length in stream.key_groups))
        source_chunks = piece_chunks(self.plan, stream.pieces)
        (_, header), *groups = zip(split(stream.pieces, sizes), runs(source_chunks, sizes), strict=True)
        for chunk in header:
            sink.write(chunk)
        numbered_groups = enumerate(stream.key_groups, stream.first_key_group)
        for (key_group, length), (pieces, chunks) in zip(numbered_groups, groups, strict=True):
            size_before = sink.size
            try:
                for part in self._with_new_ids(pieces, chunks):
                    sink.write(part)
            except SnapshotError as error:
                raise error.located(operator=self.operator.label, state=f"in key group {key_group}") from None
            key_group_lengths.append(sink.size - size_before if pieces else length)
        return tuple(key_group_lengths)

    def _with_new_ids(self, pieces: tuple[Piece, ...], chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """Return the bytes of a key group, with its state ids translated if its first piece names a table of ids."""
        if not pieces or pieces[0].ids is None:
            return chunks
        id_table = self.operator.id_tables[pieces[0].ids]
        if self.stream.compressed:
            return compressed(translated_key_group(decompressed(chunks), id_table))
        return translated_key_group(chunks, id_table)


@dataclass(frozen=True)
class CheckedWriter:
    """Copies a stream and checks that every element consists of whole snappy chunks."""

    plan: Plan
    operator: OperatorPlan
    stream: CheckedElements

    may_be_cut = False

    @property
    def size(self) -> int:
        return self.stream.size

    def write(self, sink: Sink) -> tuple[int, ...]:
        stream = self.stream
        elements = [(state.name, length) for state in stream.states for length in state.lengths]
        sizes = (stream.header_size, *(length for _, length in elements))
        element_runs = runs(piece_chunks(self.plan, stream.pieces), sizes)
        for chunk in next(element_runs):
            sink.write(chunk)
        for (name, _), chunks in zip(elements, element_runs, strict=True):
            decompressor = FramedDecompressor(has_identifier=False)
            try:
                for chunk in chunks:
                    decompressor.feed(chunk)
                    sink.write(chunk)
                decompressor.finish()
            except SnapshotError as error:
                raise error.located(operator=self.operator.label, state=name) from None
        return ()


def stream_writer(plan: Plan, operator: OperatorPlan, stream: PlannedStream) -> StreamWriter:
    match stream:
        case CopiedKeyGroups() | CopiedElements() | CopiedFile():
            return CopyingWriter(plan, stream)
        case TranslatedKeyGroups():
            return TranslatingWriter(plan, operator, stream)
        case CheckedElements():
            return CheckedWriter(plan, operator, stream)
        case _:
            assert_never(stream)
