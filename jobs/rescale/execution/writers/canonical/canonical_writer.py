"""Writer of canonical streams: a header, and key groups end to end.

The length of every key group is known before it is written, unless it is compressed. So a stream of uncompressed key
groups may be cut between any of them, and its ranges become parts of one file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np

from rescale.execution.progress import ByteAction, Progress
from rescale.execution.tasks.protocol import Tasks
from rescale.execution.writers.canonical.block_framing import blocks_by_key_group, framed, framed_lengths
from rescale.execution.writers.canonical.parts_layout import Merge, PartsWork, stream_parts
from rescale.execution.writers.canonical.range_parts import RangeParts, WrittenParts
from rescale.execution.writers.files import begin_upload, pack_receipts, part_limits, part_size, stream_uri
from rescale.execution.writers.new_handles import WrittenStream, written_handle
from rescale.execution.writers.protocol import Blocks, RecordOrder, StreamToWrite
from rescale.execution.writers.sink import StreamSink
from rescale.flink.arrays import Longs
from rescale.flink.encoding.snappy import compressed
from rescale.plan.piece_bytes import piece_chunks
from rescale.plan.plan import Plan
from rescale.plan.rekeying import Rekeying
from rescale.planning.streams.inline import InlineBudget
from rescale.runstate.places import places_of
from rescale.runstate.written_handles import WrittenHandle
from rescale.storage.locations import name
from rescale.storage.side_by_side import side_by_side
from rescale.storage.store import open_store
from rescale.text.advice import SAME_COMMAND, Advice
from rescale.text.errors import IntegrityError, LockedError, SnapshotError, StoreError

_StreamIndex = tuple[int, int]
"""Index of an operator in the plan, and index of a stream in the operator."""


@dataclass(frozen=True)
class CanonicalWriter:
    plan: Plan

    order = RecordOrder.SOURCE
    reads_whole_entries = False

    def range_size(self, rekeying: Rekeying, preferred_size: int) -> int | None:
        """Return `preferred_size`; None if key groups are compressed: offsets then depend on all earlier ranges."""
        return None if rekeying.compressed else preferred_size

    def lay_out(self, streams: Sequence[StreamToWrite], existing_sizes: Mapping[str, int]) -> list[PartsWork]:
        inline_budget = InlineBudget(self.plan.operators)
        work_items: list[PartsWork] = []
        streams_in_parts: list[tuple[StreamToWrite, list[int]]] = []
        for stream in streams:
            key_group_lengths = framed_lengths(stream.block_sizes)
            size = stream.stream.size + int(key_group_lengths.sum())
            is_inline = not self.plan.operators[stream.operator_index].is_compressed and inline_budget.try_take(size)
            if (
                not self.plan.operators[stream.operator_index].is_compressed
                and existing_sizes.get(name(self._uri(stream))) == size
            ):
                continue
            sizes = _range_sizes(stream, key_group_lengths)
            if is_inline or len(sizes) == 1:
                size_of_parts = part_size(self.plan, sizes[0])
                work_items += (
                    PartsWork(write_range, stream.stream_index, i == 0, size, size_of_parts, is_inline=is_inline)
                    for i, (write_range, size) in enumerate(zip(stream.ranges, sizes, strict=True))
                )
            else:
                streams_in_parts.append((stream, sizes))
        upload_ids = side_by_side(
            lambda stream: begin_upload(self.plan, self.plan.operators[stream.operator_index], stream.stream),
            [stream for stream, _ in streams_in_parts],
        )
        limits = part_limits(self.plan)
        for (stream, sizes), upload_id in zip(streams_in_parts, upload_ids, strict=True):
            ranges_and_sizes = list(zip(stream.ranges, sizes, strict=True))
            work_items += stream_parts(
                self.plan, stream.stream_index, name(self._uri(stream)), upload_id, ranges_and_sizes, limits
            )
        return work_items

    def write(self, work: PartsWork, blocks: Blocks) -> WrittenParts:
        operator = self.plan.operators[work.range.operator_index]
        stream = operator.rekeyed_streams[work.stream_index]
        uri = stream_uri(self.plan, operator, stream)
        sink: StreamSink | RangeParts
        if work.upload_id:
            sink = RangeParts(uri, work)
        else:
            sink = StreamSink(uri, places_of(self.plan).staging, work.part_size, is_inline=work.is_inline)
        if work.is_first:
            for chunk in piece_chunks(self.plan, [stream.header]):
                sink.write(chunk)
        key_group_lengths = [0] * stream.key_groups
        if operator.is_compressed:
            for key_group, group_blocks in blocks_by_key_group(blocks):
                size_before = sink.size
                for chunk in compressed(bytes(window) for window in framed(group_blocks)):
                    sink.write(chunk)
                key_group_lengths[key_group - stream.first_key_group] = sink.size - size_before
        else:
            for window in framed(blocks):
                sink.write(window)
            if sink.size != work.size:
                raise IntegrityError(
                    "a run of key groups does not have the size that was computed from its records",
                    expected=f"{work.size} bytes in key groups {work.range.first} to {work.range.last}",
                    found=f"{sink.size} bytes",
                )
        range_start = (work.range.operator_index, work.stream_index, work.range.first)
        if isinstance(sink, RangeParts):
            receipts = sink.close()
            return WrittenParts(
                *range_start, first_part_number=work.part_number, receipts=pack_receipts(receipts) if receipts else b""
            )
        data = sink.close()
        group_lengths = tuple(key_group_lengths) if operator.is_compressed else ()
        return WrittenParts(*range_start, size=sink.size, data=data, key_group_lengths=group_lengths)

    def finish(
        self,
        tasks: Tasks,
        streams: Sequence[StreamToWrite],
        work_items: Sequence[PartsWork],
        results: Sequence[WrittenParts],
    ) -> list[WrittenHandle]:
        parts_by_stream: dict[_StreamIndex, list[WrittenParts]] = defaultdict(list)
        for result in results:
            parts_by_stream[result.operator_index, result.stream_index].append(result)
        merges = [(work.merge.size, work.merge) for work in work_items if work.merge is not None]
        progress = Progress("join small parts", sum(size for size, _ in merges), ByteAction.COPIED)
        joined_receipts: dict[_StreamIndex, dict[int, str]] = defaultdict(dict)
        for merge, receipt in tasks.run(partial(merge_staged_parts, self.plan), merges, progress):
            joined_receipts[merge.operator_index, merge.stream_index][merge.part_number] = receipt
        upload_id_by_stream = {
            (work.range.operator_index, work.stream_index): work.upload_id for work in work_items if work.upload_id
        }

        def complete(stream: StreamToWrite) -> None:
            index = stream.operator_index, stream.stream_index
            receipts = joined_receipts.get(index, {}) | dict(
                pair for result_parts in parts_by_stream[index] for pair in result_parts.numbered_receipts
            )
            ordered_receipts = [receipt for _, receipt in sorted(receipts.items())]
            uri = self._uri(stream)
            uncompressed_size = stream.stream.size + int(framed_lengths(stream.block_sizes).sum())
            open_store(uri).complete_parts(uri, upload_id_by_stream[index], ordered_receipts, uncompressed_size)

        side_by_side(
            complete,
            [stream for stream in streams if (stream.operator_index, stream.stream_index) in upload_id_by_stream],
        )
        self._clear_staging(streams)
        return [self._handle(stream, parts_by_stream[stream.operator_index, stream.stream_index]) for stream in streams]

    def _clear_staging(self, streams: Sequence[StreamToWrite]) -> None:
        """Delete staged files, also those of earlier attempts."""
        store = open_store(self.plan.target)
        names = tuple(name(self._uri(stream)) for stream in streams)
        staged_uris = [entry.uri for entry in store.list(places_of(self.plan).staging)]
        with suppress(LockedError):  # S3 Object Lock may keep staged files, which do no harm
            store.delete([uri for uri in staged_uris if name(uri).startswith(names)])

    def _handle(self, stream: StreamToWrite, written_parts: Sequence[WrittenParts]) -> WrittenHandle:
        """Return the handle of a stream; `written_parts` is empty if an earlier attempt has written it."""
        inline_data = [(parts.first_key_group, parts.data) for parts in written_parts if parts.data is not None]
        key_group_lengths: Sequence[int] = framed_lengths(stream.block_sizes).tolist()
        size = stream.stream.size + sum(key_group_lengths)
        for parts in written_parts:
            if parts.key_group_lengths:
                key_group_lengths, size = parts.key_group_lengths, parts.size
        content = b"".join(data for _, data in sorted(inline_data)) if inline_data else None
        written_stream = WrittenStream(
            stream.stream, size, tuple(length or -1 for length in key_group_lengths), content
        )
        return written_handle(self.plan, self.plan.operators[stream.operator_index], written_stream)

    def _uri(self, stream: StreamToWrite) -> str:
        return stream_uri(self.plan, self.plan.operators[stream.operator_index], stream.stream)


def merge_staged_parts(plan: Plan, merge: Merge) -> tuple[Merge, str]:
    """Join the staged files of a part, and write the part; runs in a task. Return (merge, receipt of the part)."""
    store = open_store(plan.target)
    try:
        data = b"".join(store.read_all(uri, 1 << 30)[0] for uri in merge.staged_uris)
    except SnapshotError as error:
        raise StoreError(
            "staged parts are gone: another run of this plan is or was active",
            path=error.path,
            advice=Advice("when the other run has ended, ", SAME_COMMAND, " to resume"),
        ) from None
    operator = plan.operators[merge.operator_index]
    uri = stream_uri(plan, operator, operator.rekeyed_streams[merge.stream_index])
    return merge, store.put_part(uri, merge.upload_id, merge.part_number, merge.offset, data)


def _range_sizes(stream: StreamToWrite, key_group_lengths: Longs) -> list[int]:
    """Return the size of each range; that of the first includes the header."""
    first_key_group = stream.stream.first_key_group
    ends = np.concatenate(([0], np.cumsum(key_group_lengths)))
    sizes = [
        int(ends[write_range.last - first_key_group + 1] - ends[write_range.first - first_key_group])
        for write_range in stream.ranges
    ]
    sizes[0] += stream.stream.size
    return sizes
