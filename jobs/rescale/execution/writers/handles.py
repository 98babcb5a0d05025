"""The handles of new streams, as they will stand in `_metadata`."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import NamedTuple

from rescale.flink.metadata.handles import (
    HandleTag,
    IncrementalHandle,
    InlineStream,
    KeyGroupsHandle,
    LocalFile,
    OperatorHandle,
    OperatorStateOffsets,
    RelativeFileStream,
    Stream,
)
from rescale.flink.metadata.writer import write_keyed_handle, write_operator_handle
from rescale.planning.plan import META_STREAM, NewDatabase, NewStream, OperatorPlan, Plan, Slot
from rescale.target.written_handles import WrittenHandle

_PLACE_NAMESPACE = uuid.UUID("f7d7a0f4-5a86-5a6f-9c1e-0d1f0c3c8b52")


class WrittenStream(NamedTuple):
    """What came of a new stream: its size, the lengths of its key groups, and its content if it lies inline."""

    stream: NewStream
    size: int
    key_groups: tuple[int, ...]
    data: bytes | None


def written_handle(plan: Plan, operator: OperatorPlan, written: WrittenStream) -> WrittenHandle:
    """The handle of a stream."""
    stream, at = written.stream, _at(plan, operator, written)
    if stream.slot.is_keyed:
        handle = write_keyed_handle(_keyed_handle(plan, operator, stream, written.key_groups, at))
    else:
        handle = write_operator_handle(_operator_handle(stream, at))
    return WrittenHandle(operator.operator_id, stream.slot, stream.subtask, handle)


def written_database(
    plan: Plan, operator: OperatorPlan, database: NewDatabase, checkpoint_id: int, files: Sequence[WrittenStream]
) -> WrittenHandle:
    """The handle of a RocksDB directory; all its files are private to it."""
    by_name = {written.stream.local_name: _at(plan, operator, written) for written in files}
    meta = by_name.pop(META_STREAM)
    handle = IncrementalHandle(
        tag=HandleTag.INCREMENTAL_V2,
        checkpoint_id=checkpoint_id,
        backend_id=_id_of_place(plan, operator, Slot.KEYED, database.subtask, "backend"),
        first_key_group=database.first_key_group,
        key_groups=database.key_groups,
        checkpointed_size=0,
        meta=meta,
        shared=(),
        private=tuple(LocalFile(name, at) for name, at in by_name.items()),
        handle_id=_id_of_place(plan, operator, Slot.KEYED, database.subtask),
    )
    return WrittenHandle(operator.operator_id, Slot.KEYED, database.subtask, write_keyed_handle(handle))


def _at(plan: Plan, operator: OperatorPlan, written: WrittenStream) -> Stream:
    name = plan.file_name(operator, written.stream)
    return RelativeFileStream(name, written.size) if written.data is None else InlineStream(name, written.data)


def _id_of_place(plan: Plan, operator: OperatorPlan, slot: Slot, subtask: int, *more: str) -> str:
    """A UUID that is another one for every place of every plan, and the same whenever it is asked for."""
    place = "/".join([plan.digest, operator.operator_id, slot, str(subtask), *more])
    return str(uuid.uuid5(_PLACE_NAMESPACE, place))


def _keyed_handle(
    plan: Plan, operator: OperatorPlan, stream: NewStream, key_groups: tuple[int, ...], at: Stream
) -> KeyGroupsHandle:
    absent = -1 if stream.slot is Slot.RAW_KEYED else 0
    offsets, position = [], stream.header_size
    for length in key_groups:
        offsets.append(position if length >= 0 else absent)
        position += max(length, 0)
    has_id = stream.tag == HandleTag.KEY_GROUPS_V2
    handle_id = _id_of_place(plan, operator, stream.slot, stream.subtask) if has_id else None
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
