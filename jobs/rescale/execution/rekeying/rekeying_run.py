"""The streams whose records get new key groups, from end to end, on the driver.

Everything is read and sorted first. Then the size of every block is known, and that every record was in its place: only
now is anything written.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

from rescale.errors import RescaleError
from rescale.execution.progress import Progress
from rescale.execution.rekeying.read_units import read_units
from rescale.execution.rekeying.sort_side import SortSide
from rescale.execution.rekeying.totals import add_up
from rescale.execution.rekeying.write_ranges import plan_write_ranges
from rescale.execution.rekeying.write_side import WriteSide
from rescale.execution.sources.planned_records import planned_operator
from rescale.execution.tasks import Shuffled, Tasks
from rescale.execution.writers.protocol import KeyedWriter, Result, StreamToWrite, Work, WriteRange
from rescale.flink.arrays import Longs
from rescale.planning.values.plan import Plan
from rescale.planning.values.rekeying import Rekeying
from rescale.target.written_handles import WrittenHandle


def rekey_streams(
    plan: Plan, writer: KeyedWriter[Work, Result], tasks: Tasks, there: Mapping[str, int]
) -> list[WrittenHandle]:
    """Writes those of the writer's kind; returns their handles.

    `there` has the files of the target by name, with their sizes.
    """
    found = ((i, writer.rekeying(operator)) for i, operator in enumerate(plan.operators))
    rekeyings = {i: rekeying for i, rekeying in found if rekeying is not None}
    if not rekeyings:
        return []
    ranges = plan_write_ranges(plan, rekeyings, writer.range_size, tasks.cores)
    units = read_units(rekeyings)
    receipts = ranges[-1].partition + 1
    progress = Progress("read and check every record", sum(unit.size for unit in units))
    shuffle = tasks.shuffle(
        partial(SortSide, plan, rekeyings, ranges, receipts),
        [(unit.size, unit) for unit in units],
        receipts + 1,
        progress,
    )
    planned = {i: planned_operator(plan, plan.operators[i], rekeying) for i, rekeying in rekeyings.items()}
    states = {i: one.number_of_states for i, one in planned.items()}
    shapes = {i: (plan.operators[i].new_max_parallelism, number) for i, number in states.items()}
    totals = shuffle.read(receipts, partial(add_up, shapes=shapes))
    if isinstance(totals, RescaleError):
        raise totals
    streams = _streams(rekeyings, totals, ranges)
    works = writer.lay_out(streams, there)
    results = _write(plan, writer, shuffle, works, states)
    return writer.finish(tasks, streams, works, results)


def _write(
    plan: Plan,
    writer: KeyedWriter[Work, Result],
    shuffle: Shuffled,
    works: Sequence[Work],
    number_of_states: Mapping[int, int],
) -> list[Result]:
    """What comes of each work; `number_of_states` is by the operator's number."""
    by_partition: dict[int, list[Work]] = defaultdict(list)
    for work in works:
        by_partition[work.range.partition].append(work)
    due = {partition: sum(work.size for work in some) for partition, some in by_partition.items()}
    progress = Progress("write every record under its new key group", sum(due.values()))
    packed = {partition: pickle.dumps(some) for partition, some in by_partition.items()}
    results = []
    for result in shuffle.write(due, WriteSide(plan, writer, packed, number_of_states), progress):
        if isinstance(result, RescaleError):
            raise result
        results.append(result)
    return results


def _streams(
    rekeyings: Mapping[int, Rekeying], totals: Mapping[int, Longs], ranges: Sequence[WriteRange]
) -> list[StreamToWrite]:
    by_stream: dict[tuple[int, int], list[WriteRange]] = defaultdict(list)
    for one in ranges:
        by_stream[one.operator, one.subtask].append(one)
    return [
        StreamToWrite(
            i,
            j,
            stream,
            tuple(by_stream[i, stream.subtask]),
            total[stream.covers.first : stream.covers.last + 1],
        )
        for i, total in totals.items()
        for j, stream in enumerate(rekeyings[i].streams)
    ]
