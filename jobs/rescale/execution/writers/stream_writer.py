"""Writers of planned streams, by the type of the stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, assert_never

from rescale.execution.writers.checked import CheckedWriter
from rescale.execution.writers.sink import Sink
from rescale.execution.writers.translated import TranslatingWriter
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
from rescale.plan.plan import Plan


class StreamWriter(Protocol):
    """Writes one stream, or parts of it."""

    @property
    def size(self) -> int | None:
        """Bytes that it will write; None if unknown before they are written."""

    @property
    def may_be_cut(self) -> bool:
        """Whether any range of the stream's bytes may be written on its own."""

    def write(self, sink: Sink) -> tuple[int, ...]:
        """Write the whole stream; return the lengths of its key groups as written, -1 for absent ones."""


@dataclass(frozen=True)
class CopyingWriter:
    """Writer of streams that are runs of bytes of the source, end to end."""

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


def stream_writer(plan: Plan, operator: OperatorPlan, stream: PlannedStream) -> StreamWriter:
    """Return the writer of a planned stream."""
    match stream:
        case CopiedKeyGroups() | CopiedElements() | CopiedFile():
            return CopyingWriter(plan, stream)
        case TranslatedKeyGroups():
            return TranslatingWriter(plan, operator, stream)
        case CheckedElements():
            return CheckedWriter(plan, operator, stream)
        case _:
            assert_never(stream)
