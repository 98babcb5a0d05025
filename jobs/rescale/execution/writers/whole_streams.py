"""Writers of streams whose key groups begin with the number of their records.

The size of a block is known beforehand, but not its number of records. So the length of a key group is known only after
it is written, and a stream is one write range.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from rescale.execution.sources.planned_records import read_header
from rescale.execution.tasks.protocol import Tasks
from rescale.execution.writers.files import part_size, stream_uri
from rescale.execution.writers.new_handles import WrittenStream, written_handle
from rescale.execution.writers.protocol import Blocks, RecordOrder, StreamToWrite, WriteRange
from rescale.execution.writers.sink import StreamSink
from rescale.execution.writers.windows import windows
from rescale.flink.keyed.header import require_header
from rescale.flink.keyed.heap.heap_writer import HeapWriter
from rescale.flink.keyed.timers.timer_writer import RecordBlock, TimerWriter
from rescale.plan.piece_bytes import piece_chunks
from rescale.plan.plan import Plan
from rescale.plan.rekeying import Rekeying
from rescale.runstate.places import places_of
from rescale.runstate.written_handles import WrittenHandle


class WholeStreamWork(NamedTuple):
    """Work for one stream, whose blocks have `size` bytes."""

    range: WriteRange
    stream_index: int
    size: int


class WrittenWholeStream(NamedTuple):
    """A stream as it was written: its size, and the lengths of its key groups."""

    operator_index: int
    stream_index: int
    size: int
    key_group_lengths: tuple[int, ...]


@dataclass(frozen=True)
class WholeStreamWriter:
    """Base of writers of whole streams; subclasses say how key groups look, and whether a header comes first."""

    plan: Plan

    order = RecordOrder.SOURCE
    reads_whole_entries: ClassVar[bool]
    has_header: ClassVar[bool]
    group_writer: ClassVar[type[HeapWriter | TimerWriter]]

    def range_size(self, rekeying: Rekeying, preferred_size: int) -> None:  # noqa: ARG002
        return None

    def lay_out(self, streams: Sequence[StreamToWrite], existing_sizes: Mapping[str, int]) -> list[WholeStreamWork]:  # noqa: ARG002
        return [
            WholeStreamWork(stream.ranges[0], stream.stream_index, int(stream.block_sizes.sum())) for stream in streams
        ]

    def write(self, work: WholeStreamWork, blocks: Blocks) -> WrittenWholeStream:
        operator = self.plan.operators[work.range.operator_index]
        stream = operator.rekeyed_streams[work.stream_index]
        writer = self.group_writer(require_header(read_header(self.plan, stream.header)), operator.new_max_parallelism)
        blocks_by_cell = _blocks_by_cell(blocks)
        filled_groups = {cell // blocks.number_of_states for cell in blocks_by_cell}
        uri = stream_uri(self.plan, operator, stream)
        sink = StreamSink(uri, places_of(self.plan).staging, part_size(self.plan, work.size), is_inline=False)
        for chunk in piece_chunks(self.plan, [stream.header] if self.has_header else []):
            sink.write(chunk)
        key_group_lengths = []
        for key_group in range(work.range.first, work.range.last + 1):
            size_before = sink.size
            if key_group in filled_groups:
                for piece in writer.write(
                    key_group, partial(_record_blocks, blocks_by_cell, key_group * blocks.number_of_states)
                ):
                    sink.write(piece)
            else:
                sink.write(writer.empty(key_group))
            key_group_lengths.append(sink.size - size_before)
        sink.close()
        return WrittenWholeStream(work.range.operator_index, work.stream_index, sink.size, tuple(key_group_lengths))

    def finish(
        self,
        tasks: Tasks,  # noqa: ARG002
        streams: Sequence[StreamToWrite],
        work_items: Sequence[WholeStreamWork],  # noqa: ARG002
        results: Sequence[WrittenWholeStream],
    ) -> list[WrittenHandle]:
        result_by_stream = {(result.operator_index, result.stream_index): result for result in results}

        def handle(stream: StreamToWrite) -> WrittenHandle:
            result = result_by_stream[stream.operator_index, stream.stream_index]
            operator = self.plan.operators[stream.operator_index]
            return written_handle(
                self.plan, operator, WrittenStream(stream.stream, result.size, result.key_group_lengths, None)
            )

        return [handle(stream) for stream in streams]


class HeapStreamsWriter(WholeStreamWriter):
    """Writer of streams in heap framing."""

    reads_whole_entries = True
    has_header = True
    group_writer = HeapWriter


class TimersWriter(WholeStreamWriter):
    """Writer of raw keyed timers, which RocksDB jobs may keep on the heap."""

    reads_whole_entries = False
    has_header = False
    group_writer = TimerWriter


def _blocks_by_cell(blocks: Blocks) -> dict[int, Blocks]:
    cells, first_block_indices, counts = np.unique(blocks.cells, return_index=True, return_counts=True)
    block_runs = zip(cells.tolist(), first_block_indices.tolist(), counts.tolist(), strict=True)
    return {cell: blocks.part(first, first + count) for cell, first, count in block_runs}


def _record_blocks(blocks_by_cell: Mapping[int, Blocks], first_cell: int, state_id: int) -> Iterator[RecordBlock]:
    """Yield the records of a state in one key group, as (bytes, start, end) of each block.

    `first_cell` is the key group's first cell.
    """
    if (blocks := blocks_by_cell.get(first_cell + state_id)) is None:
        return
    for begin, end in windows(blocks):
        data, starts = blocks.load(begin, end)
        for start, size in zip(starts.tolist(), blocks.sizes[begin:end].tolist(), strict=True):
            yield data, start, start + size
