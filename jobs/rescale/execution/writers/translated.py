"""Writer of key groups whose state ids change: it reads, translates and writes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rescale.execution.sources.chunks import Chunk, runs
from rescale.execution.writers.sink import Sink
from rescale.flink.encoding.snappy import compressed, decompressed
from rescale.flink.keyed.blocks.canonical import translated
from rescale.plan.new_streams import TranslatedKeyGroups
from rescale.plan.operator_plan import OperatorPlan
from rescale.plan.piece_bytes import piece_chunks
from rescale.plan.pieces import Piece, split
from rescale.plan.plan import Plan
from rescale.text.errors import SnapshotError


@dataclass(frozen=True)
class TranslatingWriter:
    """Translates key groups; compressed ones change their lengths, so the stream's size is not known beforehand."""

    plan: Plan
    operator: OperatorPlan
    stream: TranslatedKeyGroups

    may_be_cut = False
    size = None

    def write(self, sink: Sink) -> tuple[int, ...]:
        stream = self.stream
        lengths = []
        sizes = (stream.header_size, *(max(length, 0) for length in stream.key_groups))
        read = piece_chunks(self.plan, stream.pieces)
        (_, header), *groups = zip(split(stream.pieces, sizes), runs(read, sizes), strict=True)
        for chunk in header:
            sink.write(chunk)
        planned = enumerate(stream.key_groups, stream.first_key_group)
        for (key_group, length), (pieces, chunks) in zip(planned, groups, strict=True):
            before = sink.size
            try:
                for part in self._with_ids(pieces, chunks):
                    sink.write(part)
            except SnapshotError as error:
                raise error.located(operator=self.operator.label, state=f"in key group {key_group}") from None
            lengths.append(sink.size - before if pieces else length)
        return tuple(lengths)

    def _with_ids(self, pieces: tuple[Piece, ...], chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """Return one key group with the ids that its piece asks for."""
        if not pieces or pieces[0].ids is None:
            return chunks
        table = self.operator.id_tables[pieces[0].ids]
        if self.stream.compressed:
            return compressed(translated(decompressed(chunks), table))
        return translated(chunks, table)
