"""All planned streams of some slots, from end to end, on the driver: units out, receipts in, files completed.

A file that is there with its planned size was put there by this plan (its name and the claim say so) and whole (files
appear at once), so it is not written again. Whether it holds what it should is for validation to say, whose certificate
names the version of every file that it saw.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import NamedTuple

from rescale.execution.progress import Progress
from rescale.execution.tasks import Tasks, Weighed
from rescale.execution.writers.cuts import Cut, cuts, whole_file
from rescale.execution.writers.files import begun_in_parts, stream_uri
from rescale.execution.writers.new_handles import WrittenStream, written_database, written_handle
from rescale.execution.writers.parts import part_size
from rescale.execution.writers.receipts import unpacked
from rescale.execution.writers.refused_copies import tell_of_refusals
from rescale.execution.writers.stream_units import StreamUnit, UnitResult, UnitWriter
from rescale.execution.writers.stream_writer import stream_writer
from rescale.flink.slot import Slot
from rescale.planning.little_work import is_little
from rescale.planning.task_sizes import MOST_UNITS
from rescale.planning.values.new_streams import CopiedFile, PlannedStream
from rescale.planning.values.operator_plan import OperatorPlan
from rescale.planning.values.plan import Plan
from rescale.storage.locations import is_s3, name
from rescale.storage.side_by_side import side_by_side
from rescale.storage.store import open_store
from rescale.target.written_handles import WrittenHandle

_FILES_AT_ONCE = 16
"""That threads write to by turns; no more, so that of a run that ends early few are begun in vain."""


class _Place(NamedTuple):
    """Of a stream in the plan, by the numbers of both."""

    operator: int
    stream: int


def write_planned_streams(
    plan: Plan, slots: Sequence[Slot], tasks: Tasks, says: str, there: Mapping[str, int]
) -> list[WrittenHandle]:
    """Writes them all; returns their handles. `there` are the target's files by name, with their sizes."""
    places = [
        _Place(i, j)
        for i, operator in enumerate(plan.operators)
        for j, stream in enumerate(operator.streams)
        if stream.slot in slots
    ]
    size = sum(_stream(plan, place)[1].size for place in places)
    listed = side_by_side(partial(_units, plan, there, -(-size // MOST_UNITS)), places)
    weighed = [(unit.length, unit) for some in listed for unit in some]
    in_threads = _threads_will_do(plan, weighed)
    units = list(_taking_turns(listed)) if in_threads else [unit for _, unit in weighed]
    progress = Progress(says, sum(unit.length for unit in units))
    results: dict[tuple[int, int], list[UnitResult]] = defaultdict(list)
    weighed = [(unit.length, unit) for unit in units]
    for result in tasks.run(UnitWriter(plan), weighed, progress, threads_will_do=in_threads):
        results[result.operator, result.stream].append(result)
    tell_of_refusals(progress, (result.refused for some in results.values() for result in some))
    tokens = {(unit.operator, unit.stream): unit.token for unit in units}
    written = side_by_side(lambda place: _completed(plan, place, results[place], tokens.get(place, "")), places)
    by_operator: dict[int, list[WrittenStream]] = defaultdict(list)
    for place, stream in zip(places, written, strict=True):
        by_operator[place.operator].append(stream)
    return [handle for i, streams in by_operator.items() for handle in _handles(plan, plan.operators[i], streams)]


def _threads_will_do(plan: Plan, units: Weighed[StreamUnit]) -> bool:
    """Whether nearly all of it is copied from file to file, which the system does; S3's client is Python."""
    if is_s3(plan.source) or is_s3(plan.target):
        return False

    def is_copied(unit: StreamUnit) -> bool:
        return stream_writer(plan, *_stream(plan, _Place(unit.operator, unit.stream))).may_be_cut

    return is_little([(size, unit) for size, unit in units if not is_copied(unit)])


def _taking_turns(listed: Sequence[Sequence[StreamUnit]]) -> Iterator[StreamUnit]:
    """Units of some files by turns: on a disk, who writes to a file waits for another one that does."""
    streams = [units for units in listed if units]
    for first in range(0, len(streams), _FILES_AT_ONCE):
        for turn in zip_longest(*streams[first : first + _FILES_AT_ONCE]):
            yield from (unit for unit in turn if unit is not None)


def _handles(plan: Plan, operator: OperatorPlan, written: Sequence[WrittenStream]) -> list[WrittenHandle]:
    """One for every stream, but one for all files of a directory."""
    files: dict[int, dict[str, WrittenStream]] = defaultdict(dict)
    handles = []
    for one in written:
        if isinstance(one.stream, CopiedFile):
            files[one.stream.subtask][one.stream.local_name] = one
        else:
            handles.append(written_handle(plan, operator, one))
    databases = {database.subtask: database for database in operator.databases}
    return handles + [written_database(plan, operator, databases[i], named) for i, named in files.items()]


def _units(plan: Plan, there: Mapping[str, int], least: int, place: _Place) -> list[StreamUnit]:
    """What there is to do for a stream; its units have `least` bytes, or the smallest number of parts that do."""
    operator, stream = _stream(plan, place)
    uri = stream_uri(plan, operator, stream)
    writer = stream_writer(plan, operator, stream)
    if writer.size is not None and there.get(name(uri)) == writer.size:
        return []
    small = stream.size <= part_size(plan, stream.size) or whole_file(plan, stream) is not None
    if stream.inline or not writer.may_be_cut or small:
        return [StreamUnit(*place, 0, 0, stream.size)]
    token = begun_in_parts(plan, operator, stream)
    return list(_runs(place, cuts(plan, stream), token, least))


def _runs(place: _Place, parts: Sequence[Cut], token: str, least: int) -> Iterator[StreamUnit]:
    """The parts of a stream, as many in a unit as have `least` bytes."""
    first = length = 0
    for behind, cut in enumerate(parts, 1):
        length += cut.length
        if length >= least or behind == len(parts):
            yield StreamUnit(*place, first + 1, parts[first].start, length, token, behind - first)
            first, length = behind, 0


def _completed(plan: Plan, place: _Place, results: Sequence[UnitResult], token: str) -> WrittenStream:
    """What came of a stream, after its parts (if it has any) became a file."""
    operator, stream = _stream(plan, place)
    whole = next((result for result in results if not result.part), None)
    if whole is not None:
        return WrittenStream(stream, whole.size, whole.key_groups, whole.data)
    if results:
        uri = stream_uri(plan, operator, stream)
        runs = sorted(results, key=lambda result: result.part)
        receipts = [receipt for run in runs for receipt in unpacked(run.receipts)]
        open_store(uri).complete_parts(uri, token, receipts, stream.size)
    return WrittenStream(stream, stream.size, stream.key_groups, None)


def _stream(plan: Plan, place: _Place) -> tuple[OperatorPlan, PlannedStream]:
    operator = plan.operators[place.operator]
    return operator, operator.streams[place.stream]
