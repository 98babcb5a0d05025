"""Resolves the surgery of a request: new ids of operators, and operators, states and offsets to leave out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from rescale.flink.encoding.binary import encode_modified_utf8
from rescale.flink.operator_id import is_operator_id, operator_id_of_uid
from rescale.planning.request.kafka_changes import add_kafka_changes
from rescale.planning.request.old_rows import resolve_ages
from rescale.planning.request.operator_shapes import by_operator, find_operator, find_state
from rescale.planning.request.request import Request
from rescale.planning.request.restarts import restarted_operators
from rescale.planning.request.surgery_request import SurgeryRequest
from rescale.snapshot.dropped_states import DroppedState, state_names, states_to_drop
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.old_rows import OldRows
from rescale.snapshot.surgery import Renamed, Surgery, as_dropped
from rescale.text.errors import RequestError
from rescale.text.names import did_you_mean

T = TypeVar("T")

_LONGEST_UID_BYTES = 0xFFFF
"""Largest size of a uid in bytes of Java's modified UTF-8: `MetadataV5Serializer` writes uids with `writeUTF`."""


def resolve_surgery(snapshot: Snapshot, request: SurgeryRequest) -> Surgery:
    """Return the surgery that a request asks for, with operator ids and states of the snapshot.

    Raises `RequestError` if the request does not fit the snapshot, and `UnsupportedError` if an operator cannot be
    restarted, or if Kafka offsets to change, or the age of rows to leave out, cannot be read.
    """
    renames = request.kafka.merged_renames(request.renames)
    surgery = resolve_operator_surgery(
        snapshot.operators, renames, request.drops, request.state_drops, request.restarts
    )
    if request.ages:
        old_rows = resolve_ages(snapshot, request.ages, surgery.dropped_ids)
        _refuse_dropped_states(old_rows, surgery.dropped_states)
        surgery = replace(surgery, old_rows=old_rows)
    return add_kafka_changes(surgery, snapshot, request.kafka)


def resolve_operator_surgery(
    operators: Sequence[Operator],
    renames: Mapping[str, str],
    drops: Sequence[str] = (),
    state_drops: Sequence[str] = (),
    restarts: Sequence[str] = (),
) -> Surgery:
    """Return the surgery of operators and their states.

    A name of 32 hex digits is an operator id. Any other name is a uid, and the operator id is its hash. Raises
    `RequestError` if an operator or a state does not exist, or if two operators would get the same id; and
    `UnsupportedError` if an operator cannot be restarted.
    """
    new_name_by_id, dropped_ids = (
        by_operator(operators, renames),
        by_operator(operators, dict.fromkeys(drops, True)).keys(),
    )
    _refuse_drops(operators, dropped_ids, new_name_by_id.keys())
    dropped_operators = tuple(as_dropped(op) for op in operators if op.operator_id in dropped_ids)
    renamed_operators = tuple(
        _rename(op, new_name_by_id[op.operator_id]) for op in operators if op.operator_id in new_name_by_id
    )
    staying_operators = [op for op in operators if op.operator_id not in new_name_by_id.keys() | dropped_ids]
    _refuse_common_ids(staying_operators, renamed_operators)
    return Surgery(
        renamed_operators,
        dropped_operators,
        dropped_states=tuple(_dropped_states(operators, state_drops, dropped_ids)),
        restarted=restarted_operators(operators, restarts, dropped_ids),
    )


def _refuse_dropped_states(old_rows: Iterable[OldRows], dropped_states: Iterable[DroppedState]) -> None:
    """Raise `RequestError` if a state is to be dropped, and old rows of the same state are to be left out."""
    states = {(state.operator_id, state.name) for state in dropped_states}
    for rows in old_rows:
        if (rows.operator_id, rows.name) in states:
            raise RequestError(
                "a state is dropped, and its old rows as well",
                operator=rows.label,
                state=rows.name,
                advice="ask for one of the two",
            )


def _refuse_drops(operators: Sequence[Operator], dropped_ids: Collection[str], renamed_ids: Collection[str]) -> None:
    """Raise `RequestError` if an operator is both dropped and renamed, or if all operators are dropped."""
    for operator in operators:
        if operator.operator_id in dropped_ids and operator.operator_id in renamed_ids:
            raise RequestError(
                "an operator is both dropped and renamed", operator=operator.label, advice="ask for one of the two"
            )
    if dropped_ids and len(dropped_ids) == len(operators):
        raise RequestError(
            "every operator would be dropped",
            expected="at least one operator that stays",
            found=f"{len(dropped_ids)} of {len(operators)}",
            advice="start the job without a snapshot instead",
        )


def _refuse_common_ids(staying_operators: Iterable[Operator], renamed_operators: Iterable[Renamed]) -> None:
    """Raise `RequestError` for a new id that another operator has; `staying_operators` keep their ids."""
    label_by_id = {operator.operator_id: operator.label for operator in staying_operators}
    for operator in renamed_operators:
        if operator.new_operator_id in label_by_id:
            raise RequestError(
                "two operators would get the same id",
                operator=operator.label,
                expected="a uid or an id that no other operator of the result has",
                found=f"{operator.new_label}, which {label_by_id[operator.new_operator_id]} has",
                advice="choose another name, or rename the other operator, too",
            )
        label_by_id[operator.new_operator_id] = f"{operator.label}, renamed,"


def _dropped_states(
    operators: Sequence[Operator], state_drops: Sequence[str], dropped_ids: Collection[str]
) -> Iterator[DroppedState]:
    """Yield the states that the `UID:NAME` values name; `dropped_ids` are the ids of operators that are left out."""
    already_named: set[tuple[str, str]] = set()
    for value in state_drops:
        operator, name = find_state(operators, value, states_to_drop)
        dropped_states = states_to_drop(operator, name)
        if not dropped_states:
            raise RequestError(
                f"no state {name!r} in the operator",
                operator=operator.label,
                expected=", ".join(state_names(operator)) or "none: the operator has no state with a name",
                found=name,
                advice=did_you_mean(name, state_names(operator)),
            )
        state = (operator.operator_id, dropped_states[0].name)
        if state in already_named:
            raise RequestError("the same state is named twice", operator=operator.label, state=state[1], found=value)
        if state[0] in dropped_ids:
            raise RequestError(
                "an operator is dropped, and one of its states as well",
                operator=operator.label,
                found=value,
                advice="ask for one of the two",
            )
        already_named.add(state)
        yield from dropped_states


def request_after(surgery: Surgery, operators: Sequence[Operator], request: Request) -> Request:
    """Return the request with the operator ids after the surgery; `operators` are those before the surgery."""
    if not surgery:
        return request
    return replace(
        request,
        parallelism=values_after(surgery, operators, request.parallelism),
        max_parallelism=values_after(surgery, operators, request.max_parallelism),
        key_hash=values_after(surgery, operators, request.key_hash),
    )


def values_after(surgery: Surgery, operators: Sequence[Operator], value_by_selector: Mapping[str, T]) -> dict[str, T]:
    """Return values for single operators by their ids after the surgery; the key "" stands for all other operators.

    Raises `RequestError` if there is a value for an operator that the surgery drops, or two for one that it renames.
    """
    operator_by_id = {operator.operator_id: operator for operator in operators}
    new_values: dict[str, T] = {}
    for selector, value in value_by_selector.items():
        operator_id = (find_operator(operator_by_id, selector) if selector else None) or ""
        if operator_id in surgery.dropped_ids:
            raise RequestError(
                "an operator is dropped, but the request also changes it in another way",
                operator=operator_by_id[operator_id].label,
                found=f"{selector}={value}",
                advice="ask for one of the two",
            )
        new_selector = surgery.new_ids.get(operator_id, selector)
        if new_selector in new_values:
            raise RequestError("the same operator is named twice", found=f"{selector}={value}, after another value")
        new_values[new_selector] = value
    return new_values


def _rename(operator: Operator, new_name: str) -> Renamed:
    entry = operator.entry
    uid = "" if is_operator_id(new_name) else new_name
    if len(encode_modified_utf8(uid)) > _LONGEST_UID_BYTES:
        raise RequestError(
            "the new uid is too long for a snapshot",
            operator=operator.label,
            expected=f"at most {_LONGEST_UID_BYTES} bytes",
            found=f"{len(uid)} characters",
        )
    operator_id = operator_id_of_uid(uid) if uid else new_name.lower()
    if operator_id == entry.operator_id:
        raise RequestError("an operator is renamed to the name that it has", operator=operator.label, found=new_name)
    label = uid or (f"{entry.name} ({operator_id})" if entry.name else operator_id)
    return Renamed(entry.operator_id, operator.label, operator_id, label, uid)
