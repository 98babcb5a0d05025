"""Runs the rekeying of all streams, on the driver: one pass, with its own writer, for each type of stream.

A pass first reads and sorts everything. Before it writes anything, it knows the size of every block. If the hash of the
keys is known, it has also checked that every record of the source lies in the key group of its key.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from rescale.execution.progress import ByteAction, Progress
from rescale.execution.rekeying.map_task import MapTask
from rescale.execution.rekeying.read_units import split_into_read_units
from rescale.execution.rekeying.reduce_task import ReduceTask
from rescale.execution.rekeying.totals import sum_sent_sizes
from rescale.execution.rekeying.write_ranges import plan_write_ranges
from rescale.execution.tasks.protocol import Shuffle, Tasks
from rescale.execution.writers.canonical.canonical_writer import CanonicalWriter
from rescale.execution.writers.protocol import KeyedWriter, Result, StreamToWrite, Work, WriteRange
from rescale.execution.writers.rocksdb.rows_writer import RowsWriter
from rescale.execution.writers.whole_streams import HeapStreamsWriter, TimersWriter
from rescale.flink.arrays import Longs
from rescale.flink.slot import Slot
from rescale.plan.new_streams import RekeyedDirectory, RekeyedHeapGroups, RekeyedKeyGroups, RekeyedStream, RekeyedTimers
from rescale.plan.plan import Plan
from rescale.plan.rekeying import Rekeying
from rescale.runstate.written_handles import WrittenHandle
from rescale.text.errors import RescaleError

WRITERS: Mapping[type[RekeyedStream], Callable[[Plan], KeyedWriter[Any, Any]]] = {
    RekeyedKeyGroups: CanonicalWriter,
    RekeyedDirectory: RowsWriter,
    RekeyedHeapGroups: HeapStreamsWriter,
    RekeyedTimers: TimersWriter,
}
"""Factories of the writers, in the order in which a step writes streams."""


def rekey_streams(
    plan: Plan, slots: Sequence[Slot], tasks: Tasks, existing_sizes: Mapping[str, int]
) -> list[WrittenHandle]:
    """Write the rekeyed streams in `slots`; return their handles.

    Operators that need no shuffle (`rows_are_in_order`) are left to `convert_databases`. `existing_sizes` has the sizes
    of the target's files by name.
    """
    rekeyings_by_type: dict[type[RekeyedStream], dict[int, Rekeying]] = defaultdict(dict)
    for operator_index, operator in enumerate(plan.operators):
        for rekeying in operator.rekeyings:
            if rekeying.slot in slots and not operator.rows_are_in_order:
                rekeyings_by_type[rekeying.stream_type][operator_index] = rekeying
    writers_and_rekeyings = [
        (make_writer(plan), rekeyings_by_type[stream_type])
        for stream_type, make_writer in WRITERS.items()
        if stream_type in rekeyings_by_type
    ]
    return [
        handle
        for writer, rekeyings in writers_and_rekeyings
        for handle in _rekey(plan, rekeyings, writer, tasks, existing_sizes)
    ]


def _rekey(
    plan: Plan,
    rekeying_by_operator: Mapping[int, Rekeying],
    writer: KeyedWriter[Work, Result],
    tasks: Tasks,
    existing_sizes: Mapping[str, int],
) -> list[WrittenHandle]:
    """Write the streams of rekeyings that are all of one type; return their handles.

    `rekeying_by_operator` is by the operator's index in the plan. `existing_sizes` has the sizes of the target's files
    by name.
    """
    ranges = plan_write_ranges(plan, rekeying_by_operator, writer.range_size, tasks.cores)
    units = split_into_read_units(rekeying_by_operator)
    totals_partition = ranges[-1].partition + 1
    progress = Progress("read and check every record", sum(unit.size for unit in units), ByteAction.READ)
    shuffle = tasks.shuffle(
        partial(MapTask, plan, rekeying_by_operator, ranges, totals_partition, writer.reads_whole_entries),
        [(unit.work, unit) for unit in units],
        totals_partition + 1,
        progress,
    )
    state_count_by_operator = {
        operator_index: rekeying.number_of_states for operator_index, rekeying in rekeying_by_operator.items()
    }
    shape_by_operator = {
        operator_index: (plan.operators[operator_index].new_max_parallelism, state_count)
        for operator_index, state_count in state_count_by_operator.items()
    }
    block_sizes = shuffle.read(totals_partition, partial(sum_sent_sizes, shape_by_operator=shape_by_operator))
    if isinstance(block_sizes, RescaleError):
        raise block_sizes
    streams = _streams_to_write(plan, rekeying_by_operator, block_sizes, ranges)
    work_items = writer.lay_out(streams, existing_sizes)
    results = _write_ranges(plan, writer, shuffle, work_items, state_count_by_operator)
    return writer.finish(tasks, streams, work_items, results)


def _write_ranges(
    plan: Plan,
    writer: KeyedWriter[Work, Result],
    shuffle: Shuffle,
    work_items: Sequence[Work],
    state_count_by_operator: Mapping[int, int],
) -> list[Result]:
    """Write all ranges, and return the result of each work item.

    `state_count_by_operator` has the number of states of each operator, by the operator's index in the plan.
    """
    work_by_partition: dict[int, list[Work]] = defaultdict(list)
    for work in work_items:
        work_by_partition[work.range.partition].append(work)
    size_by_partition = {partition: sum(work.size for work in items) for partition, items in work_by_partition.items()}
    progress = Progress(
        "write every record under its new key group", sum(size_by_partition.values()), ByteAction.WRITTEN
    )
    packed_work_by_partition = {partition: pickle.dumps(items) for partition, items in work_by_partition.items()}
    results = []
    for result in shuffle.write(
        size_by_partition, ReduceTask(plan, writer, packed_work_by_partition, state_count_by_operator), progress
    ):
        if isinstance(result, RescaleError):
            raise result
        results.append(result)
    return results


def _streams_to_write(
    plan: Plan,
    rekeying_by_operator: Mapping[int, Rekeying],
    block_sizes_by_operator: Mapping[int, Longs],
    ranges: Sequence[WriteRange],
) -> list[StreamToWrite]:
    ranges_by_stream: dict[tuple[int, int], list[WriteRange]] = defaultdict(list)
    for write_range in ranges:
        ranges_by_stream[write_range.operator_index, write_range.subtask].append(write_range)
    return [
        StreamToWrite(
            i,
            j,
            stream,
            tuple(ranges_by_stream[i, stream.subtask]),
            sizes[stream.key_group_range.first : stream.key_group_range.last + 1],
        )
        for i, sizes in block_sizes_by_operator.items()
        for j, stream in enumerate(plan.operators[i].rekeyed_streams)
        if isinstance(stream, rekeying_by_operator[i].stream_type)
    ]
