"""The writer of streams in the heap's own format whose key groups are new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rescale.execution.sources.planned_records import read_header
from rescale.execution.writers.whole_streams import GroupWriter, WholeStreamWriter
from rescale.flink.keyed.header import understood
from rescale.flink.keyed.heap.heap_writer import HeapWriter
from rescale.planning.values.new_streams import RekeyedHeapGroups, RekeyedStream
from rescale.planning.values.operator_plan import OperatorPlan
from rescale.planning.values.pieces import Piece
from rescale.planning.values.rekeying import Rekeying


@dataclass(frozen=True)
class HeapStreamsWriter(WholeStreamWriter):
    def rekeying(self, operator: OperatorPlan) -> Rekeying | None:
        found = operator.rekeying
        return found if found is not None and isinstance(found.streams[0], RekeyedHeapGroups) else None

    def head(self, stream: RekeyedStream) -> Sequence[Piece]:
        return [stream.header]

    def group_writer(self, operator: OperatorPlan, stream: RekeyedStream) -> GroupWriter:
        header = understood(read_header(self.plan, stream.header))
        return HeapWriter(header, operator.new_max_parallelism)
