"""The candidate: the bytes that shall become `_metadata`, a pure function of source metadata, plan and written handles.

What is not moved is kept: checkpoint id, names, uids, coordinator state, finished flags, the metadata version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from rescale.errors import IntegrityError
from rescale.flink.metadata.checkpoint_metadata import Metadata, OperatorState, Subtask, SubtaskState
from rescale.flink.metadata.properties import savepoint_properties
from rescale.flink.metadata.reader import read_keyed_handle, read_operator_handle
from rescale.flink.metadata.writer import write_metadata
from rescale.flink.slot import Slot
from rescale.planning.values.operator_plan import OperatorPlan
from rescale.planning.values.plan import Plan
from rescale.storage.store import open_store
from rescale.target.documents import read_document
from rescale.target.places import places_of
from rescale.target.states import STEPS, Move, State, permit
from rescale.target.written_handles import WrittenHandles, read_handles


class PutCandidate(NamedTuple):
    """Where it was put, and the SHA-256 (hex) of its bytes."""

    uri: str
    sha256: str


def put_candidate(plan: Plan, source: Metadata) -> PutCandidate:
    """Puts the candidate where it is compared with the source and published from.

    Of what is published that is what stands there, as it is: nobody knows then whether another reading of the handles
    is right, nor whether it is this plan's at all.
    """
    places = places_of(plan)
    if permit(plan, Move.CERTIFY) is State.PUBLISHED:
        return PutCandidate(places.metadata, hashlib.sha256(read_document(places.metadata)).hexdigest())
    written = [handles for step in STEPS if (handles := read_handles(plan, step)) is not None]
    data = build_candidate(source, plan, written)
    open_store(places.candidate).put(places.candidate, data)
    return PutCandidate(places.candidate, hashlib.sha256(data).hexdigest())


def build_candidate(source: Metadata, plan: Plan, written: Sequence[WrittenHandles]) -> bytes:
    """The new `_metadata`; `IntegrityError` if a stream that the plan wants was not written, or one too many."""
    handles = {(one.operator_id, one.slot, one.subtask): one.handle for some in written for one in some.handles}
    planned = {(o.operator_id, s.slot, s.subtask) for o in plan.operators for s in o.new_streams}
    if handles.keys() != planned:
        odd = min(handles.keys() ^ planned)
        raise IntegrityError(
            "the written handles are not those of the planned streams",
            operator=odd[0],
            expected=f"{len(planned)} streams",
            found=f"{len(handles)}, differing in the {odd[1]} stream of subtask {odd[2]}",
        )
    by_id = {operator.operator_id: operator for operator in plan.operators}
    operators = tuple(_operator(entry, by_id[entry.operator_id], handles) for entry in source.operators)
    properties = savepoint_properties(canonical=_is_canonical(plan)) if source.properties else b""
    return write_metadata(replace(source, operators=operators, properties=properties))


def _is_canonical(plan: Plan) -> bool:
    """Whether every managed keyed stream is canonical: only then may the result call itself so."""
    return all(s.is_canonical for o in plan.operators for s in o.new_streams if s.slot is Slot.KEYED)


def _operator(
    entry: OperatorState, planned: OperatorPlan, handles: dict[tuple[str, Slot, int], bytes]
) -> OperatorState:
    entry = replace(entry, max_parallelism=planned.new_max_parallelism)
    if entry.fully_finished:
        return replace(entry, parallelism=planned.new_parallelism)
    subtasks = tuple(Subtask(i, False, SubtaskState()) for i in range(planned.new_parallelism))
    if any(subtask.finished for subtask in entry.subtasks):  # then its parallelism has not changed
        subtasks = entry.subtasks
    return replace(
        entry,
        parallelism=planned.new_parallelism,
        subtasks=tuple(
            subtask if subtask.finished else replace(subtask, state=_state(entry.operator_id, subtask.index, handles))
            for subtask in subtasks
        ),
    )


def _state(operator_id: str, subtask: int, handles: dict[tuple[str, Slot, int], bytes]) -> SubtaskState:
    found = {slot: handles.get((operator_id, slot, subtask)) for slot in Slot}
    keyed, raw_keyed = found[Slot.KEYED], found[Slot.RAW_KEYED]
    operator, raw_operator = found[Slot.OPERATOR], found[Slot.RAW_OPERATOR]
    return SubtaskState(
        managed_operator=read_operator_handle(operator, "") if operator else None,
        raw_operator=read_operator_handle(raw_operator, "") if raw_operator else None,
        managed_keyed=read_keyed_handle(keyed, "") if keyed else None,
        raw_keyed=read_keyed_handle(raw_keyed, "") if raw_keyed else None,
    )
