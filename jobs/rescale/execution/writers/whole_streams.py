"""Writers of streams whose key groups say how many records they have, in front of these.

Of blocks only the bytes are known: so how long a key group is, is known when it is written, and a stream is one range.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from rescale.execution.sources.chunks import Chunk
from rescale.execution.tasks import Tasks
from rescale.execution.writers.files import stream_uri
from rescale.execution.writers.new_handles import WrittenStream, written_handle
from rescale.execution.writers.parts import part_size
from rescale.execution.writers.protocol import Blocks, RecordOrder, StreamToWrite, WriteRange
from rescale.execution.writers.sink import StreamSink
from rescale.execution.writers.windows import windows
from rescale.flink.keyed.timers.timer_writer import Run
from rescale.planning.values.new_streams import RekeyedStream
from rescale.planning.values.operator_plan import OperatorPlan
from rescale.planning.values.piece_bytes import piece_chunks
from rescale.planning.values.pieces import Piece
from rescale.planning.values.plan import Plan
from rescale.planning.values.rekeying import Rekeying
from rescale.target.places import places_of
from rescale.target.written_handles import WrittenHandle


class WholeStream(NamedTuple):
    """What there is to do for a stream: its blocks have `size` bytes."""

    range: WriteRange
    stream: int
    size: int


class WrittenWhole(NamedTuple):
    """What came of a stream: its size, and the lengths of its key groups."""

    operator: int
    stream: int
    size: int
    key_groups: tuple[int, ...]


class GroupWriter(Protocol):
    def empty(self, key_group: int) -> bytes:
        """A key group without records."""

    def write(self, key_group: int, records: Callable[[int], Iterable[Run]]) -> Iterator[Chunk]:
        """A key group, in pieces; `records` gives those of a state by its id, as often as it is asked."""


@dataclass(frozen=True)
class WholeStreamWriter(ABC):
    """All but what a key group looks like."""

    plan: Plan

    order = RecordOrder.SOURCE

    @abstractmethod
    def rekeying(self, operator: OperatorPlan) -> Rekeying | None: ...

    @abstractmethod
    def head(self, stream: RekeyedStream) -> Sequence[Piece]:
        """What lies before the first key group."""

    @abstractmethod
    def group_writer(self, operator: OperatorPlan, stream: RekeyedStream) -> GroupWriter: ...

    def range_size(self, operator: OperatorPlan, good: int) -> None:  # noqa: ARG002
        return None

    def lay_out(self, streams: Sequence[StreamToWrite], there: Mapping[str, int]) -> list[WholeStream]:  # noqa: ARG002
        return [WholeStream(one.ranges[0], one.number, int(one.blocks.sum())) for one in streams]

    def write(self, work: WholeStream, blocks: Blocks) -> WrittenWhole:
        operator = self.plan.operators[work.range.operator]
        rekeying = self.rekeying(operator)
        assert rekeying is not None
        stream = rekeying.streams[work.stream]
        writer = self.group_writer(operator, stream)
        of_slot = _by_slot(blocks)
        filled = {slot // blocks.number_of_states for slot in of_slot}
        uri = stream_uri(self.plan, operator, stream)
        sink = StreamSink(uri, places_of(self.plan).staging, part_size(self.plan, work.size), inline=False)
        for chunk in piece_chunks(self.plan, self.head(stream)):
            sink.write(chunk)
        lengths = []
        for key_group in range(work.range.first, work.range.last + 1):
            before = sink.size
            if key_group in filled:
                for piece in writer.write(key_group, partial(_runs, of_slot, key_group * blocks.number_of_states)):
                    sink.write(piece)
            else:
                sink.write(writer.empty(key_group))
            lengths.append(sink.size - before)
        sink.close()
        return WrittenWhole(work.range.operator, work.stream, sink.size, tuple(lengths))

    def finish(
        self,
        tasks: Tasks,  # noqa: ARG002
        streams: Sequence[StreamToWrite],
        works: Sequence[WholeStream],  # noqa: ARG002
        results: Sequence[WrittenWhole],
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
