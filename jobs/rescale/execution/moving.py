"""A moving step from end to end, on the driver: units out, receipts in, files completed, the handles left.

Running it again resumes: a file that is there with its planned size was put there by this plan (its name and the
claim say so) and whole (files appear at once), so it is not written again.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial

from rescale.execution.progress import Progress
from rescale.execution.rekeying.rekeying_run import rekey_streams
from rescale.execution.side_by_side import side_by_side
from rescale.execution.tasks import Tasks
from rescale.execution.writers.canonical.canonical_writer import CanonicalWriter
from rescale.execution.writers.handles import WrittenStream, written_database, written_handle
from rescale.execution.writers.move import Moved, Mover, Unit, begun_in_parts, stream_uri
from rescale.planning.plan import NewStream, OperatorPlan, Plan, Slot
from rescale.storage.locations import name
from rescale.storage.store import open_store
from rescale.target.written_handles import WrittenHandle, WrittenHandles, begin_moving, write_handles

_S3_MOST_PARTS = 10_000


def move_streams(plan: Plan, step: str, slots: tuple[Slot, ...], tasks: Tasks, says: str) -> WrittenHandles:
    """Moves the streams of `slots`, and writes and returns their handles, as those of `step`; `says` is its name."""
    there = {name(entry.uri): entry.size for entry in open_store(plan.target).list(plan.target)}
    before = begin_moving(plan, step, there)
    if before is not None:
        return before
    handles = _copied(plan, slots, tasks, says, there)
    if Slot.KEYED in slots:
        handles += rekey_streams(plan, CanonicalWriter(plan), tasks, there)
    written = WrittenHandles(step, plan.digest, tuple(handles))
    write_handles(plan, written)
    return written


def _copied(plan: Plan, slots: tuple[Slot, ...], tasks: Tasks, step: str, there: dict[str, int]) -> list[WrittenHandle]:
    """Moves the streams that are made of pieces of the source."""
    mine = [
        (i, j)
        for i, operator in enumerate(plan.operators)
        for j, stream in enumerate(operator.streams)
        if stream.slot in slots and not stream.rekeyed
    ]
    units = [unit for some in side_by_side(partial(_units, plan, there), mine) for unit in some]
    progress = Progress(step, sum(unit.length for unit in units))
    moved: dict[tuple[int, int], list[Moved]] = defaultdict(list)
    for row in tasks.run(Mover(plan), [(unit.length, unit) for unit in units], progress):
        moved[row.operator, row.stream].append(row)
    tokens = {(unit.operator, unit.stream): unit.token for unit in units}

    def completed(place: tuple[int, int]) -> tuple[int, WrittenStream]:
        i, j = place
        operator = plan.operators[i]
        return i, _completed(plan, operator, operator.streams[j], moved[place], tokens.get(place, ""))

    written = side_by_side(completed, mine)
    handles = [written_handle(plan, plan.operators[i], stream) for i, stream in written if not stream.stream.local_name]
    for i, operator in enumerate(plan.operators):
        for database in operator.databases if Slot.KEYED in slots else ():
            files = [
                stream
                for number, stream in written
                if (number, stream.stream.subtask) == (i, database.subtask) and stream.stream.local_name
            ]
            handles.append(written_database(plan, operator, database, plan.checkpoint_id, files))
    return handles


def _units(plan: Plan, there: dict[str, int], place: tuple[int, int]) -> list[Unit]:
    i, j = place
    operator, stream = plan.operators[i], plan.operators[i].streams[j]
    uri = stream_uri(plan, operator, stream)
    if not stream.rewritten and there.get(name(uri)) == stream.size:
        return []
    part_size = _part_size(plan, stream)
    if stream.inline or stream.rewritten or stream.checked or stream.size <= part_size:
        return [Unit(i, j, 0, 0, stream.size)]
    token = begun_in_parts(plan, operator, stream)
    return [
        Unit(i, j, number, start, min(part_size, stream.size - start), token)
        for number, start in enumerate(range(0, stream.size, part_size), 1)
    ]


def _part_size(plan: Plan, stream: NewStream) -> int:
    return max(plan.part_size, -(-stream.size // _S3_MOST_PARTS))


def _completed(plan: Plan, operator: OperatorPlan, stream: NewStream, moved: list[Moved], token: str) -> WrittenStream:
    """What came of a stream, after its parts (if it has any) became a file."""
    whole = next((row for row in moved if not row.part), None)
    if whole is not None:
        return WrittenStream(stream, whole.size, whole.key_groups, whole.data)
    if moved:
        uri = stream_uri(plan, operator, stream)
        receipts = [row.receipt for row in sorted(moved, key=lambda row: row.part)]
        open_store(uri).complete_parts(uri, token, receipts, stream.size)
    return WrittenStream(stream, stream.size, stream.key_groups, None)
