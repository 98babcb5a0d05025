"""The candidate for `_metadata`: bytes that depend only on source metadata, plan and written handles.

Checkpoint id, names, uids, coordinator state, finished flags and the metadata version are those of the source after the
plan's surgery (`apply_surgery`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from rescale.flink.metadata.checkpoint_metadata import Metadata, OperatorState, Subtask, SubtaskState
from rescale.flink.metadata.properties import savepoint_properties
from rescale.flink.metadata.reader import read_keyed_handle, read_operator_handle
from rescale.flink.metadata.writer import write_metadata
from rescale.flink.slot import Slot
from rescale.plan.operator_plan import OperatorPlan
from rescale.plan.plan import Plan
from rescale.runstate.documents import document_sha256, put_document
from rescale.runstate.places import places_of
from rescale.runstate.states import MOVING_STEPS, State, Transition, permit
from rescale.runstate.written_handles import WrittenHandles, read_handles
from rescale.text.errors import IntegrityError


class StoredCandidate(NamedTuple):
    """URI of a candidate, and the SHA-256 (hex) of its bytes."""

    uri: str
    sha256: str


def put_candidate(plan: Plan, source: Metadata) -> StoredCandidate:
    """Write the candidate beside the target, for validation to compare with the source and publication to copy.

    `source` is the metadata of the source after the plan's surgery.

    If the target is published, return the existing `_metadata` instead, so that validation notices a result of another
    plan.
    """
    places = places_of(plan)
    if permit(plan, Transition.CERTIFY) is State.PUBLISHED:
        return StoredCandidate(places.metadata, document_sha256(places.metadata))
    written_handles = [handles for step in MOVING_STEPS if (handles := read_handles(plan, step)) is not None]
    data = build_candidate(source, plan, written_handles)
    put_document(places.candidate, data)
    return StoredCandidate(places.candidate, hashlib.sha256(data).hexdigest())


def build_candidate(source: Metadata, plan: Plan, written_handles: Sequence[WrittenHandles]) -> bytes:
    """Return the new `_metadata`. Raises `IntegrityError` unless the written streams are those of the plan."""
    handle_by_stream = {
        (handle.operator_id, handle.slot, handle.subtask): handle.handle
        for step in written_handles
        for handle in step.handles
    }
    planned_streams = {(o.operator_id, stream.slot, stream.subtask) for o in plan.operators for stream in o.new_streams}
    if handle_by_stream.keys() != planned_streams:
        operator_id, slot, subtask = min(handle_by_stream.keys() ^ planned_streams)
        raise IntegrityError(
            "the written handles do not match the planned streams",
            operator=operator_id,
            expected=f"{len(planned_streams)} streams",
            found=f"{len(handle_by_stream)}, differing in the {slot} stream of subtask {subtask}",
        )
    operator_by_id = {operator.operator_id: operator for operator in plan.operators}
    operators = tuple(
        _operator_state(entry, operator_by_id[entry.operator_id], handle_by_stream) for entry in source.operators
    )
    is_canonical = all(s.is_canonical for o in plan.operators for s in o.new_streams if s.slot is Slot.KEYED)
    properties = savepoint_properties(is_canonical=is_canonical) if source.properties else b""
    return write_metadata(replace(source, operators=operators, properties=properties))


def _operator_state(
    entry: OperatorState, planned: OperatorPlan, handle_by_stream: dict[tuple[str, Slot, int], bytes]
) -> OperatorState:
    entry = replace(entry, max_parallelism=planned.new_max_parallelism)
    if entry.fully_finished:
        return replace(entry, parallelism=planned.new_parallelism)
    subtasks = tuple(Subtask(i, False, SubtaskState()) for i in range(planned.new_parallelism))
    # `refuse_finished` has checked that an operator with a finished subtask keeps its parallelism.
    if any(subtask.finished for subtask in entry.subtasks):
        subtasks = entry.subtasks
    return replace(
        entry,
        parallelism=planned.new_parallelism,
        subtasks=tuple(
            subtask
            if subtask.finished
            else replace(subtask, state=_subtask_state(entry.operator_id, subtask.index, handle_by_stream))
            for subtask in subtasks
        ),
    )


def _subtask_state(
    operator_id: str, subtask: int, handle_by_stream: dict[tuple[str, Slot, int], bytes]
) -> SubtaskState:
    handle_by_slot = {slot: handle_by_stream.get((operator_id, slot, subtask)) for slot in Slot}
    keyed, raw_keyed = handle_by_slot[Slot.KEYED], handle_by_slot[Slot.RAW_KEYED]
    operator, raw_operator = handle_by_slot[Slot.OPERATOR], handle_by_slot[Slot.RAW_OPERATOR]
    return SubtaskState(
        managed_operator=read_operator_handle(operator, "") if operator else None,
        raw_operator=read_operator_handle(raw_operator, "") if raw_operator else None,
        managed_keyed=read_keyed_handle(keyed, "") if keyed else None,
        raw_keyed=read_keyed_handle(raw_keyed, "") if raw_keyed else None,
    )
