"""That the operators of a result are those of its source, under the ids that were declared, and without those
that were declared as dropped.

Everything else is compared with the source after the surgery. That this is the surgery which was declared, and the ids
are what Flink makes of the uids, is seen here, from both `_metadata` files alone.
"""

from __future__ import annotations

from dataclasses import replace

from rescale.errors import IntegrityError
from rescale.execution.validation.coverage import check_equal
from rescale.flink.metadata.checkpoint_metadata import FIRST_VERSION_WITH_NAMES
from rescale.flink.operator_id import operator_id_of_uid
from rescale.names import first_of
from rescale.snapshot.dropped_states import lost_states, state_names
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.surgery import NOT_READ, Surgery, what_is_lost

_MOST_NAMED = 10


def check_declared(source: Snapshot, result: Snapshot, surgery: Surgery) -> None:
    """`source` is the one before the surgery; `IntegrityError` if the result differs from it in any other operator."""
    renamed = {one.operator_id: one for one in surgery.renamed}
    dropped = {one.operator_id for one in surgery.dropped}
    there = {operator.operator_id: operator for operator in source.operators}
    _check_there("renamed", set(renamed), set(there))
    _check_there("dropped", dropped, set(there))
    for lost in surgery.dropped:
        found_lost = what_is_lost(there[lost.operator_id])
        check_equal("what is lost", found_lost.bytes, lost.bytes, lost.label)
        if NOT_READ not in (*found_lost.states, *lost.states):  # its files may go meanwhile: nobody needs them
            check_equal("what is lost", found_lost.states, lost.states, lost.label)
    _check_states(there, result, surgery)
    entries = [entry for entry in source.metadata.operators if entry.operator_id not in dropped]
    for one in surgery.renamed:
        if one.uid:
            check_equal(f"id of the uid {one.uid!r}", operator_id_of_uid(one.uid), one.new_operator_id, one.label)
    expected = [surgery.new_ids.get(entry.operator_id, entry.operator_id) for entry in entries]
    found = [entry.operator_id for entry in result.metadata.operators]
    if expected != found:
        labels = _labels(source) | _labels(result) | {one.new_operator_id: one.new_label for one in surgery.renamed}
        missing = [labels.get(one, one) for one in expected if one not in found]
        more = [labels.get(one, one) for one in found if one not in expected]
        raise IntegrityError(
            "operators: result and source differ in others than those that were declared",
            expected=first_of(missing, _MOST_NAMED) or "no others than the source's, in their order",
            found=first_of(more, _MOST_NAMED) or ("none of these" if missing else "the same ones in another order"),
            advice="if operators were renamed or dropped, say which: --rename OLD=NEW, --drop UID",
        )
    if source.metadata.version < FIRST_VERSION_WITH_NAMES:
        return
    for old, new in zip(entries, result.metadata.operators, strict=True):
        uid = renamed[old.operator_id].uid if old.operator_id in renamed else old.uid
        check_equal("uid", uid, new.uid, old.operator_id)


def _labels(snapshot: Snapshot) -> dict[str, str]:
    return {operator.operator_id: operator.label for operator in snapshot.operators}


def _check_states(there: dict[str, Operator], result: Snapshot, surgery: Surgery) -> None:
    """That states which are declared as dropped are the source's, and none of the result's."""
    _check_there("having lost a state", {one.operator_id for one in surgery.dropped_states}, set(there))
    by_id = {operator.operator_id: operator for operator in result.operators}
    for one in surgery.dropped_states:
        lost = lost_states(there[one.operator_id], one.name)
        if replace(one, stored_bytes=None) not in lost:  # whoever only compares does not look at files for that
            raise IntegrityError(
                "a state that was declared as dropped is none of the source's",
                operator=one.label,
                state=one.name,
                expected=one,
                found=lost,
            )
        operator = by_id.get(surgery.new_ids.get(one.operator_id, one.operator_id))
        if operator is not None and one.name in state_names(operator):
            raise IntegrityError(
                "a state that was declared as dropped is in the result", operator=one.label, state=one.name
            )


def _check_there(what: str, declared: set[str], there: set[str]) -> None:
    if missing := declared - there:
        raise IntegrityError(
            f"an operator that was declared as {what} is none of the source's",
            operator=min(missing),
            advice="compare the result with the snapshot that it was made of",
        )
