"""Writer of RocksDB directories from records of any source: new SST files, and a MANIFEST that lists them.

The task of a range writes its own files, in the order of keys, so the key ranges of a state's new files do not overlap.
A range has the size of a file, whatever the number of tasks: the cuts between files depend on the plan alone.

If an earlier result is continued, the records are changes: their files lie in a level above that result's files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rescale.execution.sources.planned_records import read_header
from rescale.execution.tasks.protocol import Tasks
from rescale.execution.writers.new_handles import DirectoryFile, directory_handle
from rescale.execution.writers.protocol import Blocks, RecordOrder, StreamToWrite, WriteRange
from rescale.execution.writers.rocksdb.continued import base_manifest, base_of, take_over_base_files
from rescale.execution.writers.rocksdb.directory_files import directory_sink, put_directory_file
from rescale.execution.writers.sink import StreamSink
from rescale.execution.writers.windows import cells, windows_of_cells
from rescale.flink.arrays import Longs
from rescale.flink.keyed.blocks.record_marks import LENGTH_SIZE
from rescale.flink.keyed.blocks.record_places import record_places
from rescale.flink.keyed.header import require_header
from rescale.plan.new_streams import META_STREAM, RekeyedDirectory
from rescale.plan.operator_plan import OperatorPlan
from rescale.plan.piece_bytes import read_piece
from rescale.plan.plan import Plan
from rescale.plan.rekeying import Rekeying
from rescale.planning.streams.inline import InlineBudget
from rescale.rocksdb.assembly.new_database import NewTable, continued_manifest, new_manifest
from rescale.rocksdb.database_layout import MANIFEST_NAME
from rescale.rocksdb.engine.table_writer import TABLE_BYTES, Rows, TableWriter, WrittenTable
from rescale.rocksdb.manifest.manifest_writer import write_current, write_manifest
from rescale.rocksdb.stored_files import CURRENT
from rescale.runstate.written_handles import WrittenHandle
from rescale.storage.side_by_side import side_by_side

_TABLE_OVERHEAD_BYTES = 2048
"""Approximate bytes of a small SST file in addition to its rows."""


class RowsWork(NamedTuple):
    """Work of a range's task: it writes `size` bytes of rows, and returns the content of the files if `is_inline`."""

    range: WriteRange
    stream_index: int
    size: int
    is_inline: bool


class StateTable(NamedTuple):
    """A new SST file of the state `state_id`; its name in the target is `stored_name`, `data` is set if inline."""

    state_id: int
    stored_name: str
    table: NewTable
    data: bytes | None


class WrittenRows(NamedTuple):
    """Result of a range: the files of each state, in the order of keys."""

    operator_index: int
    stream_index: int
    first_key_group: int
    tables: tuple[StateTable, ...]


@dataclass(frozen=True)
class RowsWriter:
    plan: Plan

    order = RecordOrder.KEY
    reads_whole_entries = False

    def range_size(self, rekeying: Rekeying, preferred_size: int) -> int:  # noqa: ARG002
        return TABLE_BYTES

    def lay_out(self, streams: Sequence[StreamToWrite], existing_sizes: Mapping[str, int]) -> list[RowsWork]:  # noqa: ARG002
        inline_streams = self._inline_streams(streams)
        work_items = []
        for stream in streams:
            sizes = stream.block_sizes.sum(axis=1)
            first_key_group = stream.stream.key_group_range.first
            for write_range in stream.ranges:
                size = int(sizes[write_range.first - first_key_group : write_range.last + 1 - first_key_group].sum())
                work_items.append(
                    RowsWork(
                        write_range,
                        stream.stream_index,
                        size,
                        (stream.operator_index, stream.stream_index) in inline_streams,
                    )
                )
        return work_items

    def write(self, work: RowsWork, blocks: Blocks) -> WrittenRows:
        operator, stream, states = self._planned_stream(work.range.operator_index, work.stream_index)
        prefix = f"{self.plan.file_name(operator, stream)}-{work.range.first}"
        base = base_of(operator, work.stream_index)
        rows_of = rows_of_blocks if base is None else changes_of_blocks
        tables: list[StateTable] = []
        for state_id, name in enumerate(states):
            table_prefix = f"{prefix}-{state_id}"

            def begin_table(table_number: int, table_prefix: str = table_prefix) -> StreamSink:
                return directory_sink(
                    self.plan, _table_name(table_prefix, table_number), TABLE_BYTES, is_inline=work.is_inline
                )

            writer = TableWriter(
                begin_table,
                table_prefix,
                creation_time=stream.created,
                path=self.plan.source,
                state=name,
                sequence=base.sequence_number if base is not None else 0,
            )
            for written_table in _written_tables(writer, rows_of(blocks.blocks_of_state(state_id))):
                table = NewTable(
                    written_table.size, written_table.smallest_key, written_table.largest_key, written_table.bound_kinds
                )
                tables.append(
                    StateTable(
                        state_id, _table_name(table_prefix, written_table.number), table, written_table.file.close()
                    )
                )
        return WrittenRows(work.range.operator_index, work.stream_index, work.range.first, tuple(tables))

    def finish(
        self,
        tasks: Tasks,
        streams: Sequence[StreamToWrite],
        work_items: Sequence[RowsWork],  # noqa: ARG002
        results: Sequence[WrittenRows],
    ) -> list[WrittenHandle]:
        rows_by_stream: dict[tuple[int, int], list[WrittenRows]] = defaultdict(list)
        for result in results:
            rows_by_stream[result.operator_index, result.stream_index].append(result)
        inline_streams = self._inline_streams(streams)
        base_files = take_over_base_files(
            self.plan, tasks, [(stream.operator_index, stream.stream_index) for stream in streams], inline_streams
        )

        def handle_of(stream: StreamToWrite) -> WrittenHandle:
            index = stream.operator_index, stream.stream_index
            ranges = sorted(rows_by_stream[index], key=lambda result: result.first_key_group)
            tables = [table for result in ranges for table in result.tables]
            return self._finish_directory(*index, tables, base_files.get(index, []), index in inline_streams)

        return side_by_side(handle_of, streams)

    def _finish_directory(
        self,
        operator_index: int,
        stream_index: int,
        tables_of_states: Sequence[StateTable],
        base_files: Sequence[DirectoryFile],
        is_inline: bool,
    ) -> WrittenHandle:
        """Write the files of a directory other than its SST files, which exist already; return the directory's handle.

        The SST files are the new ones in `tables_of_states`, and `base_files` of the base that the directory continues.
        """
        operator, stream, states = self._planned_stream(operator_index, stream_index)
        tables_by_state = {
            state: [state_table for state_table in tables_of_states if state_table.state_id == state_id]
            for state_id, state in enumerate(states)
        }
        new_tables = {
            state: [state_table.table for state_table in state_tables]
            for state, state_tables in tables_by_state.items()
        }
        base = base_of(operator, stream_index)
        if base is None:
            manifest = new_manifest(new_tables, stream.created)
        else:
            manifest = continued_manifest(base_manifest(self.plan, base), new_tables, base.changes, stream.created)
        tables = [state_table for state_tables in tables_by_state.values() for state_table in state_tables]
        other_files = {
            META_STREAM: read_piece(self.plan, stream.header)[1],
            CURRENT: write_current(MANIFEST_NAME),
            MANIFEST_NAME: write_manifest(manifest, MANIFEST_NAME),
        }
        prefix = self.plan.file_name(operator, stream)
        copied_names = {file.local_name for file in base_files}
        new_names = [local_name for local_name in manifest.files if local_name not in copied_names]
        files = [
            DirectoryFile(local_name, state_table.stored_name, state_table.table.size, state_table.data)
            for local_name, state_table in zip(new_names, tables, strict=True)
        ]
        files += (file for file in base_files if file.local_name in manifest.files)
        files += (
            put_directory_file(self.plan, f"{prefix}-{local_name}", local_name, len(data), [data], is_inline=is_inline)
            for local_name, data in other_files.items()
        )
        return directory_handle(self.plan, operator, stream, files)

    def _planned_stream(
        self, operator_index: int, stream_index: int
    ) -> tuple[OperatorPlan, RekeyedDirectory, tuple[str, ...]]:
        """Return the operator, its rekeyed stream, and the names of the stream's states."""
        operator = self.plan.operators[operator_index]
        stream = operator.rekeyed_streams[stream_index]
        if not isinstance(stream, RekeyedDirectory):
            raise TypeError(f"expected a stream of RocksDB rows: {stream}")
        header = require_header(read_header(self.plan, stream.header))
        return operator, stream, header.names

    def _inline_streams(self, streams: Sequence[StreamToWrite]) -> set[tuple[int, int]]:
        """Return the streams that are so small that `_metadata` holds their files.

        A stream is given by the index of its operator in the plan, and its index in the operator.
        """
        budget = InlineBudget(self.plan.operators)
        return {
            (candidate.operator_index, candidate.stream_index)
            for candidate in streams
            if budget.try_take(self._expected_size(candidate))
        }

    def _expected_size(self, stream: StreamToWrite) -> int:
        """Return the estimated size in bytes of a stream's files, before compression."""
        base = base_of(self.plan.operators[stream.operator_index], stream.stream_index)
        return _size_of_new_files(stream) + (base.database.size if base is not None else 0)


def _size_of_new_files(stream: StreamToWrite) -> int:
    table_count = int(np.count_nonzero(stream.block_sizes.any(axis=0)))
    return stream.stream.header.length + int(stream.block_sizes.sum()) + table_count * _TABLE_OVERHEAD_BYTES


def _written_tables(
    writer: TableWriter[StreamSink], batches: Iterable[tuple[Rows, Longs]]
) -> Iterator[WrittenTable[StreamSink]]:
    for rows, order in batches:
        yield from writer.write(rows, order)
    yield from writer.finish()


def _table_name(prefix: str, number: int) -> str:
    return f"{prefix}-{number:06d}.sst"


def changes_of_blocks(blocks: Blocks) -> Iterator[tuple[Rows, Longs]]:
    """Yield the rows of blocks of changes (`change_records`), as `rows_of_blocks` does.

    The first byte of each value in the blocks becomes the kind of the row.
    """
    for rows, order in rows_of_blocks(blocks):
        change_kinds = rows.data[rows.value_begins]
        yield rows._replace(value_begins=rows.value_begins + 1, kinds=change_kinds), order


def rows_of_blocks(blocks: Blocks) -> Iterator[tuple[Rows, Longs]]:
    """Yield batches of rows of one state, with the order of each batch by key; a batch has a bounded number of bytes.

    Keys begin with their key groups, and `blocks` are in the order of key groups, so each key group is sorted on its
    own. A key group that is too large to be loaded at once must be sorted already.
    """
    from rescale.flink.keyed.blocks.key_sort_loop import sort_keys

    for begin, end in windows_of_cells(blocks):
        data, starts = blocks.load(begin, end)
        places = record_places(data, starts, starts + blocks.sizes[begin:end])
        first_block_indices, _ = cells(blocks.part(begin, end))
        borders = np.append(np.searchsorted(places.block_indices, first_block_indices), len(places.key_starts))
        order = np.empty(len(places.key_starts), np.int64)
        sort_keys(data, places.key_starts, places.key_ends, borders, order, np.empty(len(order), np.uint64))
        yield Rows(data, places.key_starts, places.key_ends, places.key_ends + LENGTH_SIZE, places.ends), order
