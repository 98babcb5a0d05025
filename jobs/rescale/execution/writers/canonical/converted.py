"""Conversion of RocksDB directories to canonical streams, for operators whose key groups stay the same.

A RocksDB directory is sorted by key group, so each new stream is read from its directories in order, without a shuffle.
If a directory overlaps several new subtasks, the task of each of them fetches it, as Flink would do.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter

from rescale.execution.progress import ByteAction, Progress
from rescale.execution.sources.chunks import Chunk
from rescale.execution.sources.database_records import database_of_snapshot
from rescale.execution.sources.planned_records import rekeyed_operator
from rescale.execution.tasks.protocol import Tasks
from rescale.execution.writers.files import part_size, stream_uri
from rescale.execution.writers.new_handles import WrittenStream, written_handle
from rescale.execution.writers.sink import Sink, StreamSink
from rescale.flink.encoding.snappy import compressed
from rescale.flink.key_groups import KeyGroupRange
from rescale.flink.keyed.header import require_header
from rescale.plan.new_streams import RekeyedStream
from rescale.plan.operator_plan import OperatorPlan
from rescale.plan.piece_bytes import piece_chunks
from rescale.plan.plan import Plan
from rescale.plan.rekeying import PlannedSource, Rekeying
from rescale.rocksdb.engine.framed_rows import KeyGroupRows
from rescale.runstate.places import places_of
from rescale.runstate.written_handles import WrittenHandle
from rescale.snapshot.places import DatabasePlace
from rescale.storage.locations import name
from rescale.text.errors import located


def convert_databases(plan: Plan, tasks: Tasks, existing_sizes: Mapping[str, int]) -> list[WrittenHandle]:
    """Write the keyed streams of all operators that need no shuffle (`rows_are_in_order`); return their handles.

    `existing_sizes` has the sizes of the target's files by name. A file of an earlier attempt is kept if its size is
    that of the converted state; to compute this size, the databases are read again.
    """
    units = [
        (_expected_size(operator, stream), (i, j))
        for i, operator in enumerate(plan.operators)
        if operator.rows_are_in_order
        for j, stream in enumerate(operator.rekeyed_streams)
    ]
    progress = Progress("read databases and write key groups", sum(weight for weight, _ in units), ByteAction.WRITTEN)
    return tasks.run(partial(_convert, plan, existing_sizes), units, progress)


def _convert(plan: Plan, existing_sizes: Mapping[str, int], index: tuple[int, int]) -> WrittenHandle:
    operator = plan.operators[index[0]]
    stream = operator.rekeyed_streams[index[1]]
    with located(operator=operator.label):
        return written_handle(plan, operator, _write_stream(plan, operator, stream, existing_sizes))


def _write_stream(
    plan: Plan, operator: OperatorPlan, stream: RekeyedStream, existing_sizes: Mapping[str, int]
) -> WrittenStream:
    uri = stream_uri(plan, operator, stream)
    assert operator.rekeying is not None
    conversion = _Conversion(plan, operator, operator.rekeying, stream)
    if name(uri) in existing_sizes:
        counting_sink = _CountingSink()
        lengths = conversion.write(counting_sink)
        if counting_sink.size == existing_sizes[name(uri)]:
            return WrittenStream(stream, counting_sink.size, lengths, None)
    size_of_parts = part_size(plan, _expected_size(operator, stream))
    sink = StreamSink(uri, places_of(plan).staging, size_of_parts, is_inline=False)
    lengths = conversion.write(sink)
    sink.close()
    return WrittenStream(stream, sink.size, lengths, None)


def _expected_size(operator: OperatorPlan, stream: RekeyedStream) -> int:
    return sum(operator.expected_key_group_bytes[stream.first_key_group :][: stream.key_groups])


class _CountingSink:
    def __init__(self) -> None:
        self.size = 0

    def write(self, data: Chunk) -> None:
        self.size += len(data)


@dataclass
class _Conversion:
    """Converts the rows of RocksDB directories to the key groups of one new stream."""

    plan: Plan
    operator: OperatorPlan
    rekeying: Rekeying
    stream: RekeyedStream

    def write(self, sink: Sink) -> tuple[int, ...]:
        """Write the header and all key groups; return the lengths of key groups, -1 for those without rows."""
        for chunk in piece_chunks(self.plan, [self.stream.header]):
            sink.write(chunk)
        lengths = [-1] * self.stream.key_groups
        with closing(self._bytes_by_key_group()) as all_pieces:  # so that no database stays open if the sink fails
            for key_group, pieces in groupby(all_pieces, key=itemgetter(0)):
                size_before = sink.size
                framed_pieces = (piece for _, piece in pieces)
                chunks: Iterator[Chunk] = (
                    compressed(map(bytes, framed_pieces)) if self.operator.is_compressed else framed_pieces
                )
                for framed_chunk in chunks:
                    sink.write(framed_chunk)
                lengths[key_group - self.stream.first_key_group] = sink.size - size_before
        return tuple(lengths)

    def _bytes_by_key_group(self) -> Generator[tuple[int, memoryview], None, None]:
        """Yield (key group, bytes) in order, database by database."""
        wanted_groups = self.stream.key_group_range
        for database, place in sorted(self.rekeying.databases, key=lambda pair: pair[1].key_groups):
            common_groups = wanted_groups.intersection(KeyGroupRange(*place.key_groups))
            if len(common_groups):
                yield from self._database_pieces(database, common_groups)

    def _database_pieces(self, database: PlannedSource, key_groups: KeyGroupRange) -> Iterator[tuple[int, memoryview]]:
        rekeyed_state = rekeyed_operator(self.plan, self.operator, self.rekeying)
        source, new_ids = rekeyed_state.source(database)
        header = require_header(source.header)
        new_ids_by_name = {state.name: int(new_ids[state_id]) for state_id, state in enumerate(header.states)}
        assert isinstance(source.place, DatabasePlace)
        with database_of_snapshot(self.plan.contents, source.place.files, header) as open_database:
            for window in open_database.read(KeyGroupRows(self.operator.max_parallelism, new_ids_by_name, key_groups)):
                rekeyed_state.key_groups.assign(
                    window.records
                )  # raises an error if a key does not hash to its key group
                yield from window.pieces
