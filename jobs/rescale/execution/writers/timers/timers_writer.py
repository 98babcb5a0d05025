"""The writer of raw keyed timers whose key groups are new: all of a subtask's are one file, key group by key group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rescale.execution.sources.chunks import Chunk
from rescale.execution.sources.planned_records import read_header
from rescale.execution.writers.whole_streams import GroupWriter, WholeStreamWriter
from rescale.flink.keyed.header import understood
from rescale.flink.keyed.timers.timer_writer import Run, TimerWriter
from rescale.planning.values.new_streams import RekeyedStream
from rescale.planning.values.operator_plan import OperatorPlan
from rescale.planning.values.pieces import Piece
from rescale.planning.values.rekeying import Rekeying


@dataclass(frozen=True)
class TimersWriter(WholeStreamWriter):
    def rekeying(self, operator: OperatorPlan) -> Rekeying | None:
        return operator.heap_timers

    def head(self, stream: RekeyedStream) -> Sequence[Piece]:  # noqa: ARG002
        return ()

    def group_writer(self, operator: OperatorPlan, stream: RekeyedStream) -> GroupWriter:
        header = understood(read_header(self.plan, stream.header))
        return _TimerGroups(TimerWriter(header, operator.new_max_parallelism))


@dataclass(frozen=True)
class _TimerGroups:
    """A key group of timers does not say its number."""

    writer: TimerWriter

    def empty(self, key_group: int) -> bytes:  # noqa: ARG002
        return self.writer.empty

    def write(self, key_group: int, records: Callable[[int], Iterable[Run]]) -> Iterator[Chunk]:  # noqa: ARG002
        return self.writer.write(records)
