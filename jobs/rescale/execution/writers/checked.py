"""Writer of compressed elements of operator state that checks each element as it copies it.

Flink 1.18.0 and 1.18.1 wrote offsets into the middle of chunks (FLINK-34063): such elements cannot be moved.
"""

from __future__ import annotations

from dataclasses import dataclass

from rescale.execution.sources.chunks import runs
from rescale.execution.writers.sink import Sink
from rescale.flink.advice import WRONG_OFFSETS
from rescale.flink.encoding.snappy import FramedDecompressor
from rescale.plan.new_streams import CheckedElements
from rescale.plan.operator_plan import OperatorPlan
from rescale.plan.piece_bytes import piece_chunks
from rescale.plan.plan import Plan
from rescale.text.errors import SnapshotError


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
