"""A moving step from end to end, on the driver: units out, receipts in, files completed, the half left.

Running it again resumes: a file that is there with its planned size was put there by this plan (its name and the
claim say so) and whole (files appear at once), so it is not written again.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator

from pyspark import SparkContext

from rescale.claim import check_claim
from rescale.execution.dispatch import run_units
from rescale.execution.halves import Half, WrittenHandle, read_half, write_half
from rescale.execution.move import Moved, Mover, Unit, stream_uri
from rescale.execution.progress import Progress
from rescale.flink.metadata.handles import (
    InlineStream,
    KeyGroupsHandle,
    OperatorHandle,
    OperatorStateOffsets,
    RelativeFileStream,
    Stream,
)
from rescale.flink.metadata.writer import write_keyed_handle, write_operator_handle
from rescale.planning.plan import NewStream, OperatorPlan, Plan, Slot
from rescale.storage.locations import name
from rescale.storage.store import open_store

_S3_MOST_PARTS = 10_000
_PLACE_NAMESPACE = uuid.UUID("f7d7a0f4-5a86-5a6f-9c1e-0d1f0c3c8b52")


def move_streams(plan: Plan, half_name: str, slots: tuple[Slot, ...], spark: SparkContext, step: str) -> Half:
    """Moves the streams of `slots`, writes the half called `half_name` and returns it."""
    check_claim(plan)
    there = {name(entry.uri): entry.size for entry in open_store(plan.target).list(plan.target)}
    mine = [
        (i, j)
        for i, operator in enumerate(plan.operators)
        for j, stream in enumerate(operator.streams)
        if stream.slot in slots
    ]
    files = {
        name(stream_uri(plan, plan.operators[i], stream))
        for i, j in mine
        if not (stream := plan.operators[i].streams[j]).inline
    }
    half = read_half(plan, half_name)
    if half is not None and files <= there.keys():
        return half
    units = [unit for i, j in mine for unit in _units(plan, i, j, there)]
    progress = Progress(step, sum(unit.length for unit in units))
    moved: dict[tuple[int, int], list[Moved]] = defaultdict(list)
    for row in run_units(spark, Mover(plan), [(unit.length, unit) for unit in units], progress):
        moved[row.operator, row.stream].append(row)
    tokens = {(unit.operator, unit.stream): unit.token for unit in units}
    handles = []
    for i, j in mine:
        operator, stream = plan.operators[i], plan.operators[i].streams[j]
        written = _completed(plan, operator, stream, moved.get((i, j), []), tokens.get((i, j), ""))
        handles.append(WrittenHandle(operator.operator_id, stream.slot, stream.subtask, written))
    half = Half(half_name, plan.digest, tuple(handles))
    write_half(plan, half)
    return half


def _units(plan: Plan, i: int, j: int, there: dict[str, int]) -> Iterator[Unit]:
    operator, stream = plan.operators[i], plan.operators[i].streams[j]
    uri = stream_uri(plan, operator, stream)
    if not stream.rewritten and there.get(name(uri)) == stream.size:
        return
    part_size = _part_size(plan, stream)
    if stream.inline or stream.rewritten or stream.checked or stream.size <= part_size:
        yield Unit(i, j, 0, 0, stream.size)
        return
    store = open_store(uri)
    store.abort_parts(uri)  # what an earlier try began
    token = store.begin_parts(uri, plan.places.staging)
    for number, start in enumerate(range(0, stream.size, part_size), 1):
        yield Unit(i, j, number, start, min(part_size, stream.size - start), token)


def _part_size(plan: Plan, stream: NewStream) -> int:
    return max(plan.part_size, -(-stream.size // _S3_MOST_PARTS))


def _completed(plan: Plan, operator: OperatorPlan, stream: NewStream, moved: list[Moved], token: str) -> bytes:
    """The handle of a stream, after its parts (if it has any) became a file."""
    uri = stream_uri(plan, operator, stream)
    whole = next((row for row in moved if not row.part), None)
    size, key_groups = stream.size, stream.key_groups
    if whole is not None:
        size, key_groups = whole.size, whole.key_groups
    elif moved:
        receipts = [row.receipt for row in sorted(moved, key=lambda row: row.part)]
        open_store(uri).complete_parts(uri, token, receipts, stream.size)
    at: Stream = RelativeFileStream(name(uri), size)
    if whole is not None and whole.data is not None:
        at = InlineStream(name(uri), whole.data)
    if stream.slot.is_keyed:
        return write_keyed_handle(_keyed_handle(plan, operator, stream, key_groups, at))
    return write_operator_handle(_operator_handle(stream, at))


def _keyed_handle(
    plan: Plan, operator: OperatorPlan, stream: NewStream, key_groups: tuple[int, ...], at: Stream
) -> KeyGroupsHandle:
    absent = -1 if stream.slot is Slot.RAW_KEYED else 0
    offsets, position = [], stream.header_size
    for length in key_groups:
        offsets.append(position if length >= 0 else absent)
        position += max(length, 0)
    place = f"{plan.digest}/{operator.operator_id}/{stream.slot}/{stream.subtask}"
    handle_id = str(uuid.uuid5(_PLACE_NAMESPACE, place)) if stream.tag == 12 else None
    return KeyGroupsHandle(stream.tag, stream.first_key_group, tuple(offsets), at, handle_id)


def _operator_handle(stream: NewStream, at: Stream) -> OperatorHandle:
    states, position = [], stream.header_size
    for state in stream.states:
        offsets = []
        for length in state.lengths:
            offsets.append(position)
            position += length
        states.append(OperatorStateOffsets(state.name, state.mode, tuple(offsets)))
    return OperatorHandle(tuple(states), at, None)
