"""Writes planned streams, on the driver: sends units to tasks, collects receipts, completes files.

A file that exists with its planned size is not written again. Its name and the claim show that a run of this plan, or a
preparation, has written it, and files appear only when complete. Validation checks its content, and the certificate
names the version of every file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import NamedTuple

from rescale.execution.progress import ByteAction, Progress
from rescale.execution.tasks.protocol import Tasks
from rescale.execution.writers.cuts import Cut, cuts, whole_file
from rescale.execution.writers.files import begin_upload, part_size, report_refused_copies, stream_uri, unpack_receipts
from rescale.execution.writers.new_handles import WrittenStream, written_database, written_handle
from rescale.execution.writers.stream_units import PreparationWriter, StreamUnit, UnitResult, UnitWriter
from rescale.execution.writers.stream_writer import stream_writer
from rescale.flink.slot import Slot
from rescale.plan.new_streams import CopiedFile, PlannedStream
from rescale.plan.operator_plan import OperatorPlan
from rescale.plan.plan import Plan
from rescale.plan.prepared_files import prepared_piece
from rescale.planning.little_work import fits_in_process
from rescale.planning.task_sizes import MOST_UNITS
from rescale.runstate.written_handles import WrittenHandle
from rescale.storage.locations import is_s3, name
from rescale.storage.side_by_side import side_by_side
from rescale.storage.store import open_store

_FILES_AT_ONCE = 16
"""Number of files that are written at the same time; few, so that an interrupted run leaves few incomplete files."""


class _StreamIndex(NamedTuple):
    """Index of an operator in the plan, and index of a stream in the operator."""

    operator_index: int
    stream_index: int


def write_planned_streams(
    plan: Plan, slots: Sequence[Slot], tasks: Tasks, progress_name: str, existing_sizes: Mapping[str, int]
) -> list[WrittenHandle]:
    """Write all planned streams in the slots; return their handles.

    `progress_name` is the name of the step in progress lines. `existing_sizes` has the sizes of the target's files by
    name.
    """
    indexes = [
        _StreamIndex(i, j)
        for i, operator in enumerate(plan.operators)
        for j, stream in enumerate(operator.streams)
        if stream.slot in slots
    ]
    written_streams = _write_streams(plan, indexes, UnitWriter(plan), tasks, progress_name, existing_sizes)
    streams_by_operator: dict[int, list[WrittenStream]] = defaultdict(list)
    for index, stream in zip(indexes, written_streams, strict=True):
        streams_by_operator[index.operator_index].append(stream)
    return [
        handle for i, streams in streams_by_operator.items() for handle in _handles(plan, plan.operators[i], streams)
    ]


def copy_ahead(plan: Plan, tasks: Tasks, existing_sizes: Mapping[str, int]) -> None:
    """Copy the files that a plan can copy before it claims its target, except those that the target already has.

    `existing_sizes` has the sizes of the target's files by name: a file of another size is copied again.
    """
    indexes = [
        _StreamIndex(i, j)
        for i, operator in enumerate(plan.operators)
        for j, stream in enumerate(operator.streams)
        if prepared_piece(stream) is not None
    ]
    _write_streams(plan, indexes, PreparationWriter(plan), tasks, "copy files ahead", existing_sizes)


def _write_streams(
    plan: Plan,
    indexes: Sequence[_StreamIndex],
    writer: Callable[[StreamUnit], UnitResult],
    tasks: Tasks,
    progress_name: str,
    existing_sizes: Mapping[str, int],
) -> list[WrittenStream]:
    if not indexes:
        return []
    total_size = sum(_planned_stream(plan, index)[1].size for index in indexes)
    units_by_stream = side_by_side(
        partial(_units_to_write, plan, existing_sizes, -(-total_size // MOST_UNITS)), indexes
    )
    units = [unit for units_of_stream in units_by_stream for unit in units_of_stream]
    in_threads = _threads_suffice(plan, units)
    if in_threads:
        units = list(_interleaved(units_by_stream))
    progress = Progress(progress_name, sum(unit.length for unit in units), ByteAction.WRITTEN)
    results_by_stream: dict[tuple[int, int], list[UnitResult]] = defaultdict(list)
    sized_units = [(unit.length, unit) for unit in units]
    for result in tasks.run(writer, sized_units, progress, threads_suffice=in_threads):
        results_by_stream[result.operator_index, result.stream_index].append(result)
    report_refused_copies(
        progress, (result.refusal for units_of_stream in results_by_stream.values() for result in units_of_stream)
    )
    upload_id_by_stream = {(unit.operator_index, unit.stream_index): unit.upload_id for unit in units}
    return side_by_side(
        lambda index: _complete_stream(plan, index, results_by_stream[index], upload_id_by_stream.get(index, "")),
        indexes,
    )


def _threads_suffice(plan: Plan, units: Sequence[StreamUnit]) -> bool:
    """Return whether threads are as fast as processes: they are if the system, not Python, copies nearly all bytes."""
    if is_s3(plan.source) or is_s3(plan.target):
        return False

    def is_copied(unit: StreamUnit) -> bool:
        return stream_writer(
            plan, *_planned_stream(plan, _StreamIndex(unit.operator_index, unit.stream_index))
        ).may_be_cut

    return fits_in_process([(unit.length, unit) for unit in units if not is_copied(unit)])


def _interleaved(units_by_stream: Sequence[Sequence[StreamUnit]]) -> Iterator[StreamUnit]:
    """Yield units of different files in turn: writers to the same local file block each other."""
    filled_streams = [units for units in units_by_stream if units]
    for first in range(0, len(filled_streams), _FILES_AT_ONCE):
        for units_in_turn in zip_longest(*filled_streams[first : first + _FILES_AT_ONCE]):
            yield from (unit for unit in units_in_turn if unit is not None)


def _handles(plan: Plan, operator: OperatorPlan, written_streams: Sequence[WrittenStream]) -> list[WrittenHandle]:
    """Return the handles of an operator's streams: one for each RocksDB directory, and one for each other stream."""
    files_by_subtask: dict[int, dict[str, WrittenStream]] = defaultdict(dict)
    handles = []
    for stream in written_streams:
        if isinstance(stream.stream, CopiedFile):
            files_by_subtask[stream.stream.subtask][stream.stream.local_name] = stream
        else:
            handles.append(written_handle(plan, operator, stream))
    database_by_subtask = {database.subtask: database for database in operator.databases}
    return handles + [
        written_database(plan, operator, database_by_subtask[i], by_name) for i, by_name in files_by_subtask.items()
    ]


def _units_to_write(
    plan: Plan, existing_sizes: Mapping[str, int], least_unit_bytes: int, index: _StreamIndex
) -> list[StreamUnit]:
    """Return the units in which a stream is written; none if its file is complete.

    All units except the last have at least `least_unit_bytes`.
    """
    operator, stream = _planned_stream(plan, index)
    uri = stream_uri(plan, operator, stream)
    writer = stream_writer(plan, operator, stream)
    if writer.size is not None and existing_sizes.get(name(uri)) == writer.size:
        return []
    is_written_whole = stream.size <= part_size(plan, stream.size) or whole_file(plan, stream) is not None
    if stream.inline or not writer.may_be_cut or is_written_whole:
        return [StreamUnit(*index, 0, 0, stream.size)]
    upload_id = begin_upload(plan, operator, stream)
    return list(_grouped_parts(index, cuts(plan, stream), upload_id, least_unit_bytes))


def _grouped_parts(
    index: _StreamIndex, parts: Sequence[Cut], upload_id: str, least_unit_bytes: int
) -> Iterator[StreamUnit]:
    first_index = length = 0
    for end, cut in enumerate(parts, 1):
        length += cut.length
        if length >= least_unit_bytes or end == len(parts):
            yield StreamUnit(
                *index,
                first_index + 1,
                parts[first_index].start,
                length,
                upload_id,
                end - first_index,
            )
            first_index, length = end, 0


def _complete_stream(plan: Plan, index: _StreamIndex, results: Sequence[UnitResult], upload_id: str) -> WrittenStream:
    operator, stream = _planned_stream(plan, index)
    whole_result = next((result for result in results if not result.first_part_number), None)
    if whole_result is not None:
        return WrittenStream(stream, whole_result.size, whole_result.key_group_lengths, whole_result.data)
    if results:
        uri = stream_uri(plan, operator, stream)
        part_results = sorted(results, key=lambda result: result.first_part_number)
        receipts = [receipt for part_result in part_results for receipt in unpack_receipts(part_result.receipts)]
        open_store(uri).complete_parts(uri, upload_id, receipts, stream.size)
    return WrittenStream(stream, stream.size, stream.key_groups, None)


def _planned_stream(plan: Plan, index: _StreamIndex) -> tuple[OperatorPlan, PlannedStream]:
    operator = plan.operators[index.operator_index]
    return operator, operator.streams[index.stream_index]
