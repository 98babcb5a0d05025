"""Proofs made from record tallies that are made up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from rescale.execution.compare.validation.key_counter import MOST_KEYS_COUNTED
from rescale.execution.compare.validation.record_compare import RecordTally
from rescale.execution.compare.validation.record_proof import record_proof
from rescale.flink.keyed.blocks.record_digest import StateDigest
from rescale.flink.keyed.header import read_keyed_header
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.keys.pojo_formulas import KNOWN_HASH
from rescale.runstate.certificate import CertifiedRecords, CertifiedState
from rescale.snapshot.model import Operator
from rescale.text.errors import IntegrityError, SnapshotError
from support.snapshot_bytes import keyed_header, keyed_state
from support.synthetic import keyed_stream, operator

ONE, OTHER = StateDigest(1, 7, 70), StateDigest(2, 30, 90)
BOTH = StateDigest(3, 37, 160)


def tally(
    in_result: bool,
    key_count: int = 0,
    *,
    are_timers: bool = False,
    are_duplicates: bool = False,
    **states: StateDigest,
) -> RecordTally:
    return RecordTally(0, in_result, states, 0, 0, key_count, are_timers, are_duplicates, {})


def prove(*tallies: RecordTally, of: Operator | None = None, key_hash: str | None = None) -> CertifiedRecords:
    owner = of or operator("op")
    proof = record_proof(owner, tallies, {} if key_hash is None else {owner.operator_id: key_hash})
    assert proof is not None
    return proof


def test_operator_without_tallies_has_no_record_proof() -> None:
    assert record_proof(operator("op"), [], {}) is None


def test_tallies_of_all_parts_are_added_up() -> None:
    proof = prove(tally(False, a=ONE), tally(False, a=OTHER, b=ONE), tally(True, a=BOTH), tally(True, b=ONE))
    assert proof.compared == 4
    assert proof.states == {"a": CertifiedState(3, f"{37:032x}"), "b": CertifiedState(1, f"{7:032x}")}
    assert (proof.key_hash, proof.hash_is, proof.left_out) == (None, None, {})


@pytest.mark.parametrize(
    ("source", "result", "message"),
    [
        ({"a": ONE}, {}, "lost, doubled or changed"),
        ({}, {"a": ONE}, "lost, doubled or changed"),
        ({"a": ONE}, {"b": ONE}, "lost, doubled or changed"),
        ({"a": ONE}, {"a": BOTH}, "lost, doubled or changed"),
        ({"a": ONE}, {"a": ONE._replace(records=2)}, "lost, doubled or changed"),
        ({"a": ONE}, {"a": ONE._replace(digest=8)}, "lost, doubled or changed"),
        ({"a": ONE}, {"a": ONE._replace(digest_with_groups=71)}, "in the wrong key groups"),
        ({"a": ONE, "b": OTHER}, {"a": OTHER, "b": ONE}, "lost, doubled or changed"),
        ({"a": ONE, "z": ONE}, {"a": ONE, "z": OTHER}, "lost, doubled or changed"),
    ],
)
def test_differing_tallies_are_found(
    source: dict[str, StateDigest], result: dict[str, StateDigest], message: str
) -> None:
    with pytest.raises(IntegrityError, match=message) as caught:
        prove(tally(False, **source), tally(True, **result))
    assert (caught.value.operator, caught.value.state) == ("op", "z" if "z" in source else "a")
    assert caught.value.expected != caught.value.found or "wrong" in message


def test_proof_says_whether_the_key_hash_is_known_or_tested() -> None:
    equal_tallies = tally(False, a=ONE), tally(True, a=ONE)
    for key_hash, certainty in ((KNOWN_HASH, "known"), ("pojo", "tested, not known")):
        proof = prove(*equal_tallies, key_hash=key_hash)
        assert (proof.key_hash, proof.hash_is) == (key_hash, certainty)


def test_dropped_states_are_counted_and_must_be_missing_in_the_result() -> None:
    with_dropped_states = replace(operator("op"), dropped_states=frozenset({"b", "never"}))
    proof = prove(tally(False, a=ONE, b=OTHER), tally(True, a=ONE), of=with_dropped_states)
    assert (proof.left_out, proof.compared, list(proof.states)) == ({"b": 2, "never": 0}, 1, ["a"])
    with pytest.raises(IntegrityError, match="lost, doubled or changed") as caught:
        prove(tally(False, a=ONE, b=OTHER), tally(True, a=ONE, b=OTHER), of=with_dropped_states)
    assert caught.value.state == "b"


@pytest.mark.parametrize(
    ("tallies", "key_count"),
    [
        ([tally(False, 3, a=ONE), tally(False, 4, a=ONE), tally(True, 5, a=StateDigest(2, 14, 140))], 7),
        ([tally(False, 3, a=ONE), tally(True, 2, are_timers=True), tally(True, 5, a=ONE)], 5),
        ([tally(False, 3, a=ONE), tally(False, 4, are_timers=True), tally(True, a=ONE)], 4),
        ([tally(False, MOST_KEYS_COUNTED, a=ONE), tally(False, 1), tally(True, a=ONE)], MOST_KEYS_COUNTED),
        ([tally(False, a=ONE), tally(True, a=ONE)], 0),
    ],
)
def test_number_of_distinct_keys_is_a_lower_bound(tallies: Sequence[RecordTally], key_count: int) -> None:
    """Keys of timers in a stream of their own, and of the other side, are not added, as they may be the same keys."""
    assert prove(*tallies).distinct_keys_at_least == key_count


NAMES = [f"state {i}" for i in range(9)]


def test_states_are_proven_and_refused_in_the_order_of_their_names() -> None:
    """The order makes two certificates of one result equal, and of several faults always the same one is reported."""
    with_dropped_states = replace(operator("op"), dropped_states=frozenset(NAMES))
    states = dict.fromkeys(reversed(NAMES), ONE)
    proof = prove(tally(False, **states, a=ONE), tally(True, a=ONE), of=with_dropped_states)
    assert list(proof.left_out) == NAMES
    assert list(prove(tally(False, **states), tally(True, **states)).states) == NAMES
    with pytest.raises(IntegrityError) as caught:
        prove(tally(False, **states), tally(True, **dict.fromkeys(states, OTHER)))
    assert caught.value.state == NAMES[0]
    owner = with_duplicate_timers(*NAMES)
    with pytest.raises(SnapshotError) as caught_duplicates:
        prove(tally(False, **states), tally(True, **states), of=owner)
    assert caught_duplicates.value.state == NAMES[0]


def with_duplicate_timers(*names: str) -> Operator:
    header = read_keyed_header(keyed_header(*map(keyed_state, (*names, "a"))), "")
    timer_states = read_keyed_header(keyed_header(*map(keyed_state, names)), "")
    keyed = keyed_stream(0, {}, Framing.CANONICAL, header, first=0, last=127)
    raw = replace(keyed_stream(0, {}, Framing.RAW, first=0, last=127), timer_services=("one",), parsed=timer_states)
    owner = operator("op", 1, keyed=(keyed,), raw_keyed=(raw,))
    assert owner.duplicate_timers
    return owner


def test_different_timers_in_keyed_and_raw_keyed_state_are_refused() -> None:
    """The result holds only one of the two copies."""
    owner, duplicate_fields = with_duplicate_timers("timers"), {"are_duplicates": True}
    keyed_tally, result_tally = tally(False, timers=ONE, a=OTHER), tally(True, timers=ONE, a=OTHER)
    assert prove(keyed_tally, tally(False, **duplicate_fields, timers=ONE), result_tally, of=owner).compared == 3
    for other_states in ({"timers": OTHER}, {"timers": ONE._replace(digest_with_groups=71)}, {}):
        with pytest.raises(SnapshotError, match="timers are stored twice") as caught:
            prove(keyed_tally, tally(False, **duplicate_fields, **other_states), result_tally, of=owner)
        assert (caught.value.operator, caught.value.state) == ("op", "timers")
    with pytest.raises(SnapshotError, match="timers are stored twice"):
        prove(tally(False, a=OTHER), tally(False, **duplicate_fields, timers=ONE), tally(True, a=OTHER), of=owner)
