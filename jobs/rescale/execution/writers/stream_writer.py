"""How a planned stream is written, by its sort: what a sort asks for is decided here and nowhere else."""

from __future__ import annotations

from typing import Protocol, assert_never

from rescale.execution.writers.checked import CheckedWriter
from rescale.execution.writers.copied import CopyingWriter
from rescale.execution.writers.sink import Sink
from rescale.execution.writers.translated import TranslatingWriter
from rescale.planning.values.new_streams import (
    CheckedElements,
    CopiedElements,
    CopiedFile,
    CopiedKeyGroups,
    PlannedStream,
    TranslatedKeyGroups,
)
from rescale.planning.values.operator_plan import OperatorPlan
from rescale.planning.values.plan import Plan


class StreamWriter(Protocol):
    """Writes one stream, or parts of it."""

    @property
    def size(self) -> int | None:
        """Bytes that it will write; None if that is known only when they are written."""

    @property
    def may_be_cut(self) -> bool:
        """Whether it may write any range of the stream's bytes alone."""

    def write(self, sink: Sink) -> tuple[int, ...]:
        """Writes all of it; returns the lengths of its key groups as written, -1 for those that are absent."""


def stream_writer(plan: Plan, operator: OperatorPlan, stream: PlannedStream) -> StreamWriter:
    match stream:
        case CopiedKeyGroups() | CopiedElements() | CopiedFile():
            return CopyingWriter(plan, stream)
        case TranslatedKeyGroups():
            return TranslatingWriter(plan, operator, stream)
        case CheckedElements():
            return CheckedWriter(plan, operator, stream)
        case _:
            assert_never(stream)
