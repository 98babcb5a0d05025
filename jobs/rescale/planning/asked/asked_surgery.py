"""From the words of a request to the surgery that they stand for: the new ids of operators, and what is left out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from rescale.errors import RequestError
from rescale.flink.encoding.binary import encode_modified_utf8
from rescale.flink.operator_id import is_operator_id, operator_id_of_uid
from rescale.names import did_you_mean
from rescale.planning.asked.asked_kafka import with_kafka
from rescale.planning.asked.operator_shapes import by_operator, find_operator
from rescale.planning.asked.request import Request
from rescale.planning.asked.surgery_words import SurgeryWords
from rescale.snapshot.dropped_states import DroppedState, lost_states, state_names
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.surgery import Renamed, Surgery, what_is_lost

T = TypeVar("T")

_LONGEST_UID = 0xFFFF
"""In Java's modified UTF-8: `MetadataV5Serializer` writes it by `writeUTF`."""


def asked_surgery(snapshot: Snapshot, words: SurgeryWords) -> Surgery:
    """The surgery on a snapshot that the words stand for; `RequestError` if one of them makes no sense there.

    `UnsupportedError` if offsets that are to change cannot be read.
    """
    renames = words.kafka.with_renames(words.renames)
    surgery = operator_surgery(snapshot.operators, renames, words.drops, words.state_drops)
    return with_kafka(surgery, snapshot, words.kafka)


def operator_surgery(
    operators: Sequence[Operator],
    renames: Mapping[str, str],
    drops: Sequence[str] = (),
    state_drops: Sequence[str] = (),
) -> Surgery:
    """What becomes of operators and their states; `RequestError` if one is not there, or two would have one id.

    32 hex digits are an id, and anything else is a uid, of which the id is computed.
    """
    new_names, left_out = by_operator(operators, renames), by_operator(operators, dict.fromkeys(drops, True)).keys()
    _refuse_drops(operators, left_out, new_names.keys())
    dropped = tuple(what_is_lost(one) for one in operators if one.operator_id in left_out)
    renamed = tuple(_renamed(one, new_names[one.operator_id]) for one in operators if one.operator_id in new_names)
    staying = [one for one in operators if one.operator_id not in new_names.keys() | left_out]
    _refuse_common_ids(staying, renamed)
    return Surgery(renamed, dropped, dropped_states=tuple(_dropped_states(operators, state_drops, left_out)))


def _refuse_drops(operators: Sequence[Operator], dropped: Collection[str], renamed: Collection[str]) -> None:
    """`dropped` and `renamed` are ids of operators."""
    for operator in operators:
        if operator.operator_id in dropped and operator.operator_id in renamed:
            raise RequestError(
                "an operator is both dropped and renamed", operator=operator.label, advice="ask for one of the two"
            )
    if dropped and len(dropped) == len(operators):
        raise RequestError(
            "every operator would be dropped",
            expected="one at least that stays",
            found=f"{len(dropped)} of {len(operators)}",
            advice="start the job without a snapshot instead",
        )


def _refuse_common_ids(staying: Iterable[Operator], renamed: Iterable[Renamed]) -> None:
    """`staying` are those that keep their ids."""
    holders = {operator.operator_id: operator.label for operator in staying}
    for one in renamed:
        if one.new_operator_id in holders:
            raise RequestError(
                "two operators would have one id",
                operator=one.label,
                expected="a uid or an id that no other operator of the result has",
                found=f"{one.new_label}, which {holders[one.new_operator_id]} has",
                advice="give another name, or the other operator one, too",
            )
        holders[one.new_operator_id] = f"{one.label}, renamed,"


def _dropped_states(
    operators: Sequence[Operator], words: Sequence[str], dropped: Collection[str]
) -> Iterator[DroppedState]:
    """What `UID:NAME` stand for, wherever in it the uid ends; `dropped` are ids of operators that are left out."""
    by_id = {operator.operator_id: operator for operator in operators}
    known: set[tuple[str, str]] = set()
    for word in words:
        named = states_meant(by_id, word)
        if not named:
            by_operator(operators, {word.rpartition(":")[0]: True})  # which says who is there
        holding = [(operator, lost) for operator, name in named if (lost := lost_states(operator, name))]
        if not holding:
            operator, name = named[0]
            raise RequestError(
                f"no state {name!r} in the operator",
                operator=operator.label,
                expected=", ".join(state_names(operator)) or "no state at all that could be dropped by its name",
                found=name,
                advice=did_you_mean(name, state_names(operator)),
            )
        if len(holding) > 1:
            raise RequestError(
                f"{word!r} may be states of {len(holding)} operators",
                found=", ".join(operator.label for operator, _ in holding),
                advice="name the operator by its id",
            )
        operator, lost = holding[0]
        state = (operator.operator_id, lost[0].name)
        if state in known:
            raise RequestError("the same state is named twice", operator=operator.label, state=state[1], found=word)
        if state[0] in dropped:
            raise RequestError(
                "an operator is dropped, and one of its states, too",
                operator=operator.label,
                found=word,
                advice="ask for one of the two",
            )
        known.add(state)
        yield from lost


def states_meant(by_id: Mapping[str, Operator], word: str) -> list[tuple[Operator, str]]:
    """The operators that `UID:NAME` may mean, each with the name that a state of it then has."""
    places = [i for i, sign in enumerate(word) if sign == ":"]
    return [(by_id[found], word[i + 1 :]) for i in places if (found := find_operator(by_id, word[:i]))]


def request_after(surgery: Surgery, operators: Sequence[Operator], request: Request) -> Request:
    """The request, where it is read for a snapshot after the surgery: whoever is named as before it is meant still.

    `operators` are those before.
    """
    if not surgery:
        return request
    return replace(
        request,
        parallelism=words_after(surgery, operators, request.parallelism),
        max_parallelism=words_after(surgery, operators, request.max_parallelism),
        key_hash=words_after(surgery, operators, request.key_hash),
    )


def words_after(surgery: Surgery, operators: Sequence[Operator], words: Mapping[str, T]) -> dict[str, T]:
    """What is said of single operators, by names that they have after the surgery; "" stands for all others.

    `RequestError` if something is said of one that is left out.
    """
    dropped = {one.operator_id for one in surgery.dropped}
    by_id = {operator.operator_id: operator for operator in operators}
    after: dict[str, T] = {}
    for selector, word in words.items():
        operator_id = (find_operator(by_id, selector) if selector else None) or ""
        if operator_id in dropped:
            raise RequestError(
                "an operator is dropped, and something else is asked for it, too",
                operator=by_id[operator_id].label,
                found=f"{selector}={word}",
                advice="ask for one of the two",
            )
        after[surgery.new_ids.get(operator_id, selector)] = word
    return after


def _renamed(operator: Operator, new: str) -> Renamed:
    entry = operator.entry
    uid = "" if is_operator_id(new) else new
    if len(encode_modified_utf8(uid)) > _LONGEST_UID:
        raise RequestError(
            "the new uid is longer than a snapshot can hold",
            operator=operator.label,
            expected=f"at most {_LONGEST_UID} bytes",
            found=f"{len(uid)} characters",
        )
    operator_id = operator_id_of_uid(uid) if uid else new.lower()
    if operator_id == entry.operator_id:
        raise RequestError("an operator is renamed to what it is called already", operator=operator.label, found=new)
    label = uid or (f"{entry.name} ({operator_id})" if entry.name else operator_id)
    return Renamed(entry.operator_id, operator.label, operator_id, label, uid)
