"""Check of the declared surgery: a result has its source's operators, except those declared as renamed or dropped.

Everything else is compared with the source after the surgery. From both `_metadata` files alone, this check shows that
only the declared operators changed, and that new ids follow from the declared uids by Flink's rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rescale.execution.compare.validation.headers import check_equal
from rescale.flink.metadata.checkpoint_metadata import FIRST_VERSION_WITH_NAMES
from rescale.flink.operator_id import operator_id_of_uid
from rescale.snapshot.dropped_states import state_names, states_to_drop
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.old_rows import old_rows
from rescale.snapshot.surgery import NOT_READ, Surgery, as_dropped, as_restarted
from rescale.text.advice import Advice, mention
from rescale.text.errors import IntegrityError, RequestError
from rescale.text.names import first_of

_MOST_LABELS_SHOWN = 10


def check_declared(source: Snapshot, result: Snapshot, surgery: Surgery) -> None:
    """Compare the result's operators with those of `source`, the source before the surgery.

    Raises `IntegrityError` if they differ in an operator that the surgery does not name, or if source or result
    contradict the surgery.
    """
    source_operators = {operator.operator_id: operator for operator in source.operators}
    _check_in_source("renamed", {renaming.operator_id for renaming in surgery.renamed}, source_operators)
    _check_dropped_operators(source_operators, surgery)
    _check_dropped_states(source_operators, result, surgery)
    _check_restarted(source_operators, surgery)
    _check_old_rows(source_operators, surgery)
    _check_ids(source, result, surgery)


def _check_dropped_operators(source_operators: Mapping[str, Operator], surgery: Surgery) -> None:
    """Check that the source has the operators declared as dropped, with the declared states and bytes."""
    _check_in_source("dropped", {operator.operator_id for operator in surgery.dropped}, source_operators)
    for dropped in surgery.dropped:
        actual_loss = as_dropped(source_operators[dropped.operator_id])
        check_equal("bytes of the dropped operator", actual_loss.bytes, dropped.bytes, dropped.label)
        # Files of a dropped operator may be missing. Then the names of its states are unknown (NOT_READ).
        if NOT_READ not in (*actual_loss.states, *dropped.states):
            check_equal("states of the dropped operator", actual_loss.states, dropped.states, dropped.label)


def _check_restarted(source_operators: Mapping[str, Operator], surgery: Surgery) -> None:
    _check_in_source("restarted", {operator.operator_id for operator in surgery.restarted}, source_operators)
    for restarted in surgery.restarted:
        actual = as_restarted(source_operators[restarted.operator_id])
        check_equal("finished subtasks of the restarted operator", actual, restarted, restarted.label)


def _check_old_rows(source_operators: Mapping[str, Operator], surgery: Surgery) -> None:
    _check_in_source("losing old rows", {rows.operator_id for rows in surgery.old_rows}, source_operators)
    for rows in surgery.old_rows:
        try:
            source_rows = old_rows(source_operators[rows.operator_id], rows.name, rows.until)
        except RequestError as error:
            raise error.recast(IntegrityError, f"{error.what}, but the state was declared to lose old rows") from None
        check_equal("state that loses old rows", source_rows, rows, rows.label)


def _check_ids(source: Snapshot, result: Snapshot, surgery: Surgery) -> None:
    """Check that all operators of the result have the source's ids and uids, except for declared changes."""
    for renaming in surgery.renamed:
        if renaming.uid:
            new_id = operator_id_of_uid(renaming.uid)
            check_equal(f"id of the uid {renaming.uid!r}", new_id, renaming.new_operator_id, renaming.label)
    source_entries = [entry for entry in source.metadata.operators if entry.operator_id not in surgery.dropped_ids]
    expected_ids = [surgery.new_ids.get(entry.operator_id, entry.operator_id) for entry in source_entries]
    actual_ids = [entry.operator_id for entry in result.metadata.operators]
    if expected_ids != actual_ids:
        raise _other_operators_error(source, result, surgery, expected_ids, actual_ids)
    if source.metadata.version < FIRST_VERSION_WITH_NAMES:
        return
    new_uids = {renaming.operator_id: renaming.uid for renaming in surgery.renamed}
    for old, new in zip(source_entries, result.metadata.operators, strict=True):
        check_equal("uid", new_uids.get(old.operator_id, old.uid), new.uid, old.operator_id)


def _other_operators_error(
    source: Snapshot, result: Snapshot, surgery: Surgery, expected_ids: Sequence[str], actual_ids: Sequence[str]
) -> IntegrityError:
    new_labels = {renaming.new_operator_id: renaming.new_label for renaming in surgery.renamed}
    labels = _labels_by_id(source) | _labels_by_id(result) | new_labels
    missing_labels = [
        labels.get(operator_id, operator_id) for operator_id in expected_ids if operator_id not in actual_ids
    ]
    surplus_labels = [
        labels.get(operator_id, operator_id) for operator_id in actual_ids if operator_id not in expected_ids
    ]
    return IntegrityError(
        "the result and the source differ in operators that were not declared as renamed or dropped",
        expected=first_of(missing_labels, _MOST_LABELS_SHOWN) or "only the source's operators, in their order",
        found=first_of(surplus_labels, _MOST_LABELS_SHOWN)
        or ("none of these" if missing_labels else "the same operators in another order"),
        advice=Advice(
            "if operators were renamed or dropped, say which: ",
            mention("rename", "OLD=NEW"),
            ", ",
            mention("drop", "UID"),
        ),
    )


def _labels_by_id(snapshot: Snapshot) -> dict[str, str]:
    return {operator.operator_id: operator.label for operator in snapshot.operators}


def _check_dropped_states(source_operators: Mapping[str, Operator], result: Snapshot, surgery: Surgery) -> None:
    """Check that states declared as dropped are in the source and not in the result."""
    changed_ids = {dropped.operator_id for dropped in surgery.dropped_states}
    _check_in_source("having lost a state", changed_ids, source_operators)
    result_operators = {operator.operator_id: operator for operator in result.operators}
    for dropped in surgery.dropped_states:
        source_states = states_to_drop(source_operators[dropped.operator_id], dropped.name)
        if (
            replace(dropped, stored_bytes=None) not in source_states
        ):  # a comparison does not read files to count these bytes
            raise IntegrityError(
                "the source does not have a state that was declared as dropped",
                operator=dropped.label,
                state=dropped.name,
                expected=dropped,
                found=source_states,
            )
        operator = result_operators.get(surgery.new_ids.get(dropped.operator_id, dropped.operator_id))
        if operator is not None and dropped.name in state_names(operator):
            raise IntegrityError(
                "the result still has a state that was declared as dropped", operator=dropped.label, state=dropped.name
            )


def _check_in_source(change: str, declared_ids: set[str], source_operators: Mapping[str, Operator]) -> None:
    if missing_ids := declared_ids - source_operators.keys():
        raise IntegrityError(
            f"the source does not have an operator that was declared as {change}",
            operator=min(missing_ids),
            advice="compare the result with the snapshot that it was made from",
        )
