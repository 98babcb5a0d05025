"""What a task does with a unit of work: reads pieces of the source and writes them, or returns them if they are few.

A stream that is copied can be cut anywhere, so a large one is moved in parts by many tasks. A stream that is
*rewritten* (state ids translated) or *checked* (compressed elements) is moved from end to end by one task.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from rescale.execution.writers.rewrite import checked_elements, rewritten_groups
from rescale.execution.writers.sink import StreamSink
from rescale.planning.piece_bytes import piece_chunks
from rescale.planning.pieces import split
from rescale.planning.plan import NewStream, OperatorPlan, Piece, Plan
from rescale.storage.store import open_store
from rescale.target.places import places_of


class Unit(NamedTuple):
    """Bytes `start` to `start + length` of one new stream: a part of it, or (`part` 0) all of it.

    `token` names the upload that a part belongs to.
    """

    operator: int
    stream: int
    part: int
    start: int
    length: int
    token: str = ""


class Moved(NamedTuple):
    """What came of a unit: the receipt of a part, or all about a whole stream.

    `data` is the content of an inline stream, `key_groups` are the lengths as written.
    """

    operator: int
    stream: int
    part: int
    receipt: str = ""
    size: int = 0
    data: bytes | None = None
    key_groups: tuple[int, ...] = ()


@dataclass(frozen=True)
class Mover:
    """Moves units of one plan; travels to the tasks as it is."""

    plan: Plan

    def __call__(self, unit: Unit) -> Moved:
        operator = self.plan.operators[unit.operator]
        stream = operator.streams[unit.stream]
        if unit.part:
            return self._part(unit, operator, stream)
        return self._whole(unit, operator, stream)

    def _part(self, unit: Unit, operator: OperatorPlan, stream: NewStream) -> Moved:
        _, pieces = split(stream.pieces, (unit.start, unit.length))
        chunks = list(self.chunks(pieces, unit.length))
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        uri = stream_uri(self.plan, operator, stream)
        receipt = open_store(uri).put_part(uri, unit.token, unit.part, unit.start, data)
        return Moved(unit.operator, unit.stream, unit.part, receipt)

    def _whole(self, unit: Unit, operator: OperatorPlan, stream: NewStream) -> Moved:
        uri = stream_uri(self.plan, operator, stream)
        sink = StreamSink(uri, places_of(self.plan).staging, self.plan.part_size, inline=stream.inline)
        key_groups = stream.key_groups
        if stream.rewritten:
            key_groups = rewritten_groups(operator, stream, self.chunks, sink)
        elif stream.checked:
            checked_elements(operator, stream, self.chunks, sink)
        else:
            for chunk in self.chunks(stream.pieces):
                sink.write(chunk)
        data = sink.close()
        return Moved(unit.operator, unit.stream, 0, size=sink.size, data=data, key_groups=key_groups)

    def chunks(self, pieces: tuple[Piece, ...], at_once: int | None = None) -> Iterator[bytes]:
        """The bytes of the pieces in chunks of at most `at_once` bytes (default: the plan's chunk size)."""
        return piece_chunks(self.plan, pieces, at_once)


def stream_uri(plan: Plan, operator: OperatorPlan, stream: NewStream) -> str:
    return places_of(plan).stream(plan.file_name(operator, stream))


def begun_in_parts(plan: Plan, operator: OperatorPlan, stream: NewStream) -> str:
    """The token of a stream's upload, begun in place of what an earlier try began."""
    uri = stream_uri(plan, operator, stream)
    store = open_store(uri)
    store.abort_parts(uri)
    return store.begin_parts(uri, places_of(plan).staging)
