"""Streams that are runs of bytes of the source, end to end."""

from __future__ import annotations

from dataclasses import dataclass

from rescale.execution.writers.sink import Sink
from rescale.planning.values.new_streams import CopiedElements, CopiedFile, CopiedKeyGroups
from rescale.planning.values.piece_bytes import piece_chunks
from rescale.planning.values.plan import Plan


@dataclass(frozen=True)
class CopyingWriter:
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
