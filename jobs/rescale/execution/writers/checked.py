"""Compressed elements of operator state, each looked into on its way.

Flink 1.18.0 and 1.18.1 wrote offsets into the middle of chunks (FLINK-34063): such elements cannot move.
"""

from __future__ import annotations

from dataclasses import dataclass

from rescale.errors import SnapshotError
from rescale.execution.sources.chunks import runs
from rescale.execution.writers.sink import Sink
from rescale.flink.advice import WRONG_OFFSETS
from rescale.flink.encoding.snappy import FramedDecompressor
from rescale.planning.values.new_streams import CheckedElements
from rescale.planning.values.operator_plan import OperatorPlan
from rescale.planning.values.piece_bytes import piece_chunks
from rescale.planning.values.plan import Plan


@dataclass(frozen=True)
class CheckedWriter:
    """Copies a stream, making sure that every element is whole snappy chunks."""

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
        consecutive = runs(piece_chunks(self.plan, stream.pieces), sizes)
        for chunk in next(consecutive):
            sink.write(chunk)
        for (name, _), chunks in zip(elements, consecutive, strict=True):
            decompressor = FramedDecompressor(identifier=False)
            try:
                for chunk in chunks:
                    decompressor.feed(chunk)
                    sink.write(chunk)
                decompressor.finish()
            except SnapshotError as error:
                raise error.located(operator=self.operator.label, state=name, advice=WRONG_OFFSETS) from None
        return ()
