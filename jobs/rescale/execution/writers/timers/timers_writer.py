"""The writer of raw keyed timers whose key groups are new: all of a subtask's are one file, key group by key group.

How many timers a key group has stands in front of them, and of blocks only the bytes are known: so how long a key group
is, is known when it is written, and a stream is one range.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from rescale.execution.sources.planned_records import read_header
from rescale.execution.tasks import Tasks
from rescale.execution.writers.files import stream_uri
from rescale.execution.writers.new_handles import WrittenStream, written_handle
from rescale.execution.writers.parts import part_size
from rescale.execution.writers.protocol import Blocks, RecordOrder, StreamToWrite, WriteRange
from rescale.execution.writers.sink import StreamSink
from rescale.execution.writers.windows import windows
from rescale.flink.keyed.header import understood
from rescale.flink.keyed.timer_writer import Run, TimerWriter
from rescale.planning.operator_plan import OperatorPlan
from rescale.planning.plan import Plan
from rescale.planning.rekeying import Rekeying
from rescale.target.places import places_of
from rescale.target.written_handles import WrittenHandle


class TimersWork(NamedTuple):
    """The timers of a whole stream: `size` bytes of their blocks."""

    range: WriteRange
    stream: int
    size: int


class WrittenTimers(NamedTuple):
    """What came of a stream: its size, and the lengths of its key groups."""

    operator: int
    stream: int
    size: int
    key_groups: tuple[int, ...]


@dataclass(frozen=True)
class TimersWriter:
    plan: Plan

    order = RecordOrder.SOURCE

    def rekeying(self, operator: OperatorPlan) -> Rekeying | None:
        return operator.heap_timers

    def range_size(self, operator: OperatorPlan, good: int) -> None:  # noqa: ARG002
        return None

    def lay_out(self, streams: Sequence[StreamToWrite], there: Mapping[str, int]) -> list[TimersWork]:  # noqa: ARG002
        return [TimersWork(one.ranges[0], one.number, int(one.blocks.sum())) for one in streams]

    def write(self, work: TimersWork, blocks: Blocks) -> WrittenTimers:
        operator = self.plan.operators[work.range.operator]
        assert operator.heap_timers is not None
        stream = operator.heap_timers.streams[work.stream]
        header = understood(read_header(self.plan, stream.header))
        writer = TimerWriter(header, operator.new_max_parallelism)
        of_slot = _by_slot(blocks)
        filled = {slot // blocks.number_of_states for slot in of_slot}
        uri = stream_uri(self.plan, operator, stream)
        sink = StreamSink(uri, places_of(self.plan).staging, part_size(self.plan, work.size), inline=False)
        lengths = []
        for key_group in range(work.range.first, work.range.last + 1):
            before = sink.size
            if key_group in filled:
                for piece in writer.write(partial(_runs, of_slot, key_group * blocks.number_of_states)):
                    sink.write(piece)
            else:
                sink.write(writer.empty)
            lengths.append(sink.size - before)
        sink.close()
        return WrittenTimers(work.range.operator, work.stream, sink.size, tuple(lengths))

    def finish(
        self,
        tasks: Tasks,  # noqa: ARG002
        streams: Sequence[StreamToWrite],
        works: Sequence[TimersWork],  # noqa: ARG002
        results: Sequence[WrittenTimers],
    ) -> list[WrittenHandle]:
        written = {(result.operator, result.stream): result for result in results}

        def handle(one: StreamToWrite) -> WrittenHandle:
            result = written[one.operator, one.number]
            operator = self.plan.operators[one.operator]
            return written_handle(self.plan, operator, WrittenStream(one.stream, result.size, result.key_groups, None))

        return [handle(one) for one in streams]


def _by_slot(blocks: Blocks) -> dict[int, Blocks]:
    """The blocks of every slot that has any."""
    slots, firsts, counts = np.unique(blocks.slots, return_index=True, return_counts=True)
    places = zip(slots.tolist(), firsts.tolist(), counts.tolist(), strict=True)
    return {slot: blocks.part(first, first + count) for slot, first, count in places}


def _runs(of_slot: Mapping[int, Blocks], first: int, state_id: int) -> Iterator[Run]:
    """The records of a state, in the key group whose slots begin with `first`."""
    if (blocks := of_slot.get(first + state_id)) is None:
        return
    for begin, behind in windows(blocks):
        data, starts = blocks.load(begin, behind)
        for start, size in zip(starts.tolist(), blocks.sizes[begin:behind].tolist(), strict=True):
            yield data, start, start + size
