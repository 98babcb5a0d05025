"""The handles of new streams, as they will stand in `_metadata`."""

from __future__ import annotations

import uuid

from rescale.execution.halves import WrittenHandle
from rescale.flink.metadata.handles import (
    HandleTag,
    InlineStream,
    KeyGroupsHandle,
    OperatorHandle,
    OperatorStateOffsets,
    RelativeFileStream,
    Stream,
)
from rescale.flink.metadata.writer import write_keyed_handle, write_operator_handle
from rescale.planning.plan import NewStream, OperatorPlan, Plan, Slot

_PLACE_NAMESPACE = uuid.UUID("f7d7a0f4-5a86-5a6f-9c1e-0d1f0c3c8b52")


def written_handle(
    plan: Plan,
    operator: OperatorPlan,
    stream: NewStream,
    *,
    size: int,
    key_groups: tuple[int, ...],
    data: bytes | None,
) -> WrittenHandle:
    """The handle of a stream of `size` bytes; `data` is its content if it lies inline, `key_groups` are its lengths."""
    name = plan.places.stream_name(operator.operator_id, stream.slot, stream.subtask)
    at: Stream = RelativeFileStream(name, size) if data is None else InlineStream(name, data)
    if stream.slot.is_keyed:
        handle = write_keyed_handle(_keyed_handle(plan, operator, stream, key_groups, at))
    else:
        handle = write_operator_handle(_operator_handle(stream, at))
    return WrittenHandle(operator.operator_id, stream.slot, stream.subtask, handle)


def _keyed_handle(
    plan: Plan, operator: OperatorPlan, stream: NewStream, key_groups: tuple[int, ...], at: Stream
) -> KeyGroupsHandle:
    absent = -1 if stream.slot is Slot.RAW_KEYED else 0
    offsets, position = [], stream.header_size
    for length in key_groups:
        offsets.append(position if length >= 0 else absent)
        position += max(length, 0)
    place = f"{plan.digest}/{operator.operator_id}/{stream.slot}/{stream.subtask}"
    handle_id = str(uuid.uuid5(_PLACE_NAMESPACE, place)) if stream.tag == HandleTag.KEY_GROUPS_V2 else None
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
