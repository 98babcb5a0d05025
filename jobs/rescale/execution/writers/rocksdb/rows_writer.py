"""The writer of RocksDB directories whose records may come from anywhere: new SST files, and a MANIFEST over them.

The task of a range writes files of its own, in the order of their keys, so those of all ranges lie end to end. Ranges
are as large as the files should be, whatever tasks there are: how a directory is cut into files depends on the plan
alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rescale.execution.sources.planned_records import read_header
from rescale.execution.tasks import Tasks
from rescale.execution.writers.new_handles import DirectoryFile, directory_handle
from rescale.execution.writers.protocol import Blocks, RecordOrder, StreamToWrite, WriteRange
from rescale.execution.writers.rocksdb.directory_files import directory_sink, put_directory_file
from rescale.execution.writers.rocksdb.rows_of_blocks import rows_of_blocks
from rescale.execution.writers.sink import StreamSink
from rescale.flink.keyed.header import understood
from rescale.planning.streams.inline import InlineBudget
from rescale.planning.values.new_streams import META_STREAM, RekeyedRows
from rescale.planning.values.operator_plan import OperatorPlan
from rescale.planning.values.piece_bytes import read_piece
from rescale.planning.values.plan import Plan
from rescale.planning.values.rekeying import Rekeying
from rescale.rocksdb.assembly.new_database import NewTable, manifest_of
from rescale.rocksdb.database_layout import MANIFEST_NAME
from rescale.rocksdb.engine.table_writer import TABLE_BYTES, TableWriter, WrittenTable
from rescale.rocksdb.manifest.manifest_writer import write_current, write_manifest
from rescale.rocksdb.stored_files import CURRENT
from rescale.storage.side_by_side import side_by_side
from rescale.target.written_handles import WrittenHandle

_TABLE_OVERHEAD = 2048
"""Bytes of a small SST file beside its rows, about."""


class RowsWork(NamedTuple):
    """The rows of a range, `size` bytes of them; the files are handed back if they are to lie `inline`."""

    range: WriteRange
    stream: int
    size: int
    inline: bool


class StateTable(NamedTuple):
    """An SST file of the state with that id, which is called `stored` in the target."""

    state: int
    stored: str
    table: NewTable
    data: bytes | None


class WrittenRows(NamedTuple):
    """What came of a range: files of each state, in the order of their keys."""

    operator: int
    stream: int
    first_key_group: int
    tables: tuple[StateTable, ...]


@dataclass(frozen=True)
class RowsWriter:
    plan: Plan

    order = RecordOrder.KEY

    def rekeying(self, operator: OperatorPlan) -> Rekeying | None:
        found = operator.rekeying
        return found if found is not None and isinstance(found.streams[0], RekeyedRows) else None

    def range_size(self, operator: OperatorPlan, good: int) -> int:  # noqa: ARG002
        return TABLE_BYTES

    def lay_out(self, streams: Sequence[StreamToWrite], there: Mapping[str, int]) -> list[RowsWork]:  # noqa: ARG002
        inline = self._inline(streams)
        works = []
        for stream in streams:
            sizes = stream.blocks.sum(axis=1)
            first = stream.stream.covers.first
            for one in stream.ranges:
                size = int(sizes[one.first - first : one.last + 1 - first].sum())
                works.append(RowsWork(one, stream.number, size, (stream.operator, stream.number) in inline))
        return works

    def write(self, work: RowsWork, blocks: Blocks) -> WrittenRows:
        operator, stream, states = self._stream(work.range.operator, work.stream)
        own = f"{self.plan.file_name(operator, stream)}-{work.range.first}"
        tables: list[StateTable] = []
        for state, name in enumerate(states):
            files = f"{own}-{state}"

            def begin(number: int, files: str = files) -> StreamSink:
                return directory_sink(self.plan, _stored(files, number), TABLE_BYTES, inline=work.inline)

            writer = TableWriter(begin, files, created=stream.created, path=self.plan.source, state=name)
            for written in _written(writer, blocks.of_state(state)):
                table = NewTable(written.size, written.smallest, written.largest)
                tables.append(StateTable(state, _stored(files, written.number), table, written.file.close()))
        return WrittenRows(work.range.operator, work.stream, work.range.first, tuple(tables))

    def finish(
        self,
        tasks: Tasks,  # noqa: ARG002
        streams: Sequence[StreamToWrite],
        works: Sequence[RowsWork],  # noqa: ARG002
        results: Sequence[WrittenRows],
    ) -> list[WrittenHandle]:
        written: dict[tuple[int, int], list[WrittenRows]] = defaultdict(list)
        for result in results:
            written[result.operator, result.stream].append(result)
        inline = self._inline(streams)

        def finished(one: StreamToWrite) -> WrittenHandle:
            place = one.operator, one.number
            ranges = sorted(written[place], key=lambda result: result.first_key_group)
            return self._handle(*place, [table for result in ranges for table in result.tables], place in inline)

        return side_by_side(finished, streams)

    def _handle(
        self,
        operator_number: int,
        number: int,
        found: Sequence[StateTable],
        inline: bool,
    ) -> WrittenHandle:
        """Of a directory whose SST files are there: the others are put, too."""
        operator, stream, states = self._stream(operator_number, number)
        by_state = {state: [one for one in found if one.state == i] for i, state in enumerate(states)}
        manifest = manifest_of({state: [one.table for one in some] for state, some in by_state.items()}, stream.created)
        tables = [one for some in by_state.values() for one in some]
        small = {
            META_STREAM: read_piece(self.plan, stream.header)[1],
            CURRENT: write_current(MANIFEST_NAME),
            MANIFEST_NAME: write_manifest(manifest, MANIFEST_NAME),
        }
        own = self.plan.file_name(operator, stream)
        files = [
            DirectoryFile(local_name, one.stored, one.table.size, one.data)
            for local_name, one in zip(manifest.files, tables, strict=True)
        ]
        files += (
            put_directory_file(self.plan, f"{own}-{local_name}", local_name, len(data), [data], inline=inline)
            for local_name, data in small.items()
        )
        return directory_handle(self.plan, operator, stream, files)

    def _stream(self, operator_number: int, number: int) -> tuple[OperatorPlan, RekeyedRows, list[str]]:
        """With the names of its states."""
        operator = self.plan.operators[operator_number]
        stream = operator.rekeyed[number]
        if not isinstance(stream, RekeyedRows):
            raise TypeError(f"not for RocksDB: {stream}")
        header = understood(read_header(self.plan, stream.header))
        return operator, stream, [state.name for state in header.states]

    def _inline(self, streams: Sequence[StreamToWrite]) -> set[tuple[int, int]]:
        """(operator, number) of the streams whose files all lie in `_metadata`: small ones, while there is room."""
        planned = (stream for operator in self.plan.operators for stream in operator.streams if stream.inline)
        budget = InlineBudget(spent=sum(stream.size for stream in planned))
        return {(one.operator, one.number) for one in streams if budget.takes(_expected_size(one))}


def _expected_size(stream: StreamToWrite) -> int:
    """Bytes of the files of a small stream."""
    tables = int(np.count_nonzero(stream.blocks.any(axis=0)))
    return stream.stream.header.length + int(stream.blocks.sum()) + tables * _TABLE_OVERHEAD


def _written(writer: TableWriter[StreamSink], blocks: Blocks) -> Iterator[WrittenTable[StreamSink]]:
    for rows, order in rows_of_blocks(blocks):
        yield from writer.write(rows, order)
    yield from writer.finish()


def _stored(files: str, number: int) -> str:
    return f"{files}-{number:06d}.sst"
