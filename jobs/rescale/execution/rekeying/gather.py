"""The second half of the work: the task of a partition takes in all its blocks, and writes its lanes in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rescale.errors import IntegrityError, RescaleError
from rescale.execution.rekeying.arena import Arena
from rescale.execution.rekeying.framing import Blocks, by_key_group, framed, of_lane, take_in
from rescale.execution.rekeying.layout import LaneWork, number_of_parts, part_size_of
from rescale.execution.sources.chunks import Chunk
from rescale.execution.writers.move import stream_uri
from rescale.execution.writers.rewrite import compressed
from rescale.execution.writers.sink import StreamSink
from rescale.planning.piece_bytes import piece_chunks
from rescale.planning.plan import NewStream, OperatorPlan, Plan
from rescale.storage.store import open_store
from rescale.target.places import places_of


class Written(NamedTuple):
    """What came of a lane: receipts of parts by number, or its content if inline; or, of a whole stream, its size.

    `key_groups` are the lengths of compressed key groups, which are known only now.
    """

    operator: int
    stream: int
    first_key_group: int
    receipts: tuple[tuple[int, str], ...] = ()
    size: int = 0
    data: bytes | None = None
    key_groups: tuple[int, ...] = ()


@dataclass(frozen=True)
class Gather:
    """Writes the lanes of a partition from its rows; final errors are returned in place of what was written."""

    plan: Plan
    works: Mapping[int, Sequence[LaneWork]]
    states: Mapping[int, int]
    sizes: Mapping[tuple[int, int], int]

    def __call__(self, partition: int, rows: Iterable[bytes]) -> Iterator[Written | RescaleError]:
        with Arena() as arena:
            blocks = take_in(rows, arena)
            for work in self.works[partition]:
                operator = self.plan.operators[work.lane.operator]
                states = self.states[work.lane.operator]
                mine = of_lane(blocks, work.lane.operator, work.lane.first * states, (work.lane.last + 1) * states - 1)
                try:
                    yield self._written(work, operator, mine, arena)
                except RescaleError as error:
                    if not error.final:
                        raise
                    yield error.located(operator=operator.label)
                    return

    def _written(self, work: LaneWork, operator: OperatorPlan, blocks: Blocks, arena: Arena) -> Written:
        stream = operator.streams[work.stream]
        states = self.states[work.lane.operator]
        sink: StreamSink | PartsSink
        if work.token:
            sink = PartsSink(self.plan, operator, stream, work, self.sizes[work.lane.operator, work.stream])
        else:
            uri = stream_uri(self.plan, operator, stream)
            part_size = part_size_of(self.plan, work.size)
            sink = StreamSink(uri, places_of(self.plan).staging, part_size, inline=work.inline)
        if work.first:
            for chunk in piece_chunks(self.plan, stream.pieces):
                sink.write(chunk)
        lengths = [0] * len(stream.key_groups)
        if stream.compressed:
            for key_group, part in by_key_group(blocks, states):
                before = sink.size
                for chunk in compressed(bytes(window) for window in framed(part, states, arena)):
                    sink.write(chunk)
                lengths[key_group - stream.first_key_group] = sink.size - before
        else:
            for window in framed(blocks, states, arena):
                sink.write(window)
            if sink.size != work.size:
                raise IntegrityError(
                    "a run of key groups is not as long as its records were counted",
                    expected=f"{work.size} bytes in key groups {work.lane.first} to {work.lane.last}",
                    found=sink.size,
                )
        where = (work.lane.operator, work.stream, work.lane.first)
        if isinstance(sink, PartsSink):
            return Written(*where, receipts=sink.close())
        data = sink.close()
        return Written(*where, size=sink.size, data=data, key_groups=tuple(lengths) if stream.compressed else ())


class PartsSink:
    """Writes one lane as parts of a file, its first bytes to a place of their own if they are to be merged."""

    def __init__(self, plan: Plan, operator: OperatorPlan, stream: NewStream, work: LaneWork, stream_size: int) -> None:
        self.size = 0
        self._uri = stream_uri(plan, operator, stream)
        self._work = work
        self._part_size = part_size_of(plan, stream_size)
        self._store = open_store(self._uri)
        self._buffer = bytearray()
        self._staged_due = work.staged
        self._parts_due = number_of_parts(work.size - work.staged, self._part_size)
        self._offset = work.offset
        self._receipts: list[tuple[int, str]] = []

    def write(self, data: Chunk) -> None:
        self.size += len(data)
        self._buffer += data
        if self._staged_due and len(self._buffer) >= self._staged_due:
            self._store.put(self._work.staging, self._taken(self._staged_due))
            self._staged_due = 0
        while not self._staged_due and self._parts_due > 1 and len(self._buffer) >= self._part_size:
            self._put_part(self._part_size)

    def close(self) -> tuple[tuple[int, str], ...]:
        """Makes all durable; receipts of the parts by number."""
        if self._parts_due:
            self._put_part(len(self._buffer))
        return tuple(self._receipts)

    def _put_part(self, size: int) -> None:
        data = self._taken(size)
        number = self._work.part + len(self._receipts)
        self._receipts.append((number, self._store.put_part(self._uri, self._work.token, number, self._offset, data)))
        self._offset += size
        self._parts_due -= 1

    def _taken(self, size: int) -> bytes:
        with memoryview(self._buffer) as view:
            data = bytes(view[:size])
        del self._buffer[:size]
        return data
