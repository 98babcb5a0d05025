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
    in_result: bool, keys: int = 0, *, are_timers: bool = False, are_duplicates: bool = False, **states: StateDigest
) -> RecordTally:
    return RecordTally(0, in_result, states, 0, 0, keys, are_timers, are_duplicates, {})


def proven(*tallies: RecordTally, of: Operator | None = None, key_hash: str | None = None) -> CertifiedRecords:
    owner = of or operator("op")
    proof = record_proof(owner, tallies, {} if key_hash is None else {owner.operator_id: key_hash})
    assert proof is not None
    return proof


def test_operator_without_tallies_has_no_record_proof() -> None:
    assert record_proof(operator("op"), [], {}) is None


def test_tallies_of_all_parts_are_added_up() -> None:
    proof = proven(tally(False, a=ONE), tally(False, a=OTHER, b=ONE), tally(True, a=BOTH), tally(True, b=ONE))
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
        proven(tally(False, **source), tally(True, **result))
    assert (caught.value.operator, caught.value.state) == ("op", "z" if "z" in source else "a")
    assert caught.value.expected != caught.value.found or "wrong" in message


def test_proof_says_whether_the_key_hash_is_known_or_tested() -> None:
    same = tally(False, a=ONE), tally(True, a=ONE)
    for key_hash, sure in ((KNOWN_HASH, "known"), ("pojo", "tested, not known")):
        proof = proven(*same, key_hash=key_hash)
        assert (proof.key_hash, proof.hash_is) == (key_hash, sure)


def test_dropped_states_are_counted_and_must_be_missing_in_the_result() -> None:
    given_up = replace(operator("op"), dropped_states=frozenset({"b", "never"}))
    proof = proven(tally(False, a=ONE, b=OTHER), tally(True, a=ONE), of=given_up)
    assert (proof.left_out, proof.compared, list(proof.states)) == ({"b": 2, "never": 0}, 1, ["a"])
    with pytest.raises(IntegrityError, match="lost, doubled or changed") as caught:
        proven(tally(False, a=ONE, b=OTHER), tally(True, a=ONE, b=OTHER), of=given_up)
    assert caught.value.state == "b"


@pytest.mark.parametrize(
    ("tallies", "least"),
    [
        ([tally(False, 3, a=ONE), tally(False, 4, a=ONE), tally(True, 5, a=StateDigest(2, 14, 140))], 7),
        ([tally(False, 3, a=ONE), tally(True, 2, are_timers=True), tally(True, 5, a=ONE)], 5),
        ([tally(False, 3, a=ONE), tally(False, 4, are_timers=True), tally(True, a=ONE)], 4),
        ([tally(False, MOST_KEYS_COUNTED, a=ONE), tally(False, 1), tally(True, a=ONE)], MOST_KEYS_COUNTED),
        ([tally(False, a=ONE), tally(True, a=ONE)], 0),
    ],
)
def test_number_of_distinct_keys_is_a_lower_bound(tallies: Sequence[RecordTally], least: int) -> None:
    """Keys of timers in a stream of their own, and of the other side, are not added, as they may be the same keys."""
    assert proven(*tallies).distinct_keys_at_least == least


NAMES = [f"state {i}" for i in range(9)]


def test_states_are_proven_and_refused_in_the_order_of_their_names() -> None:
    """The order makes two certificates of one result equal, and of several faults always the same one is reported."""
    given_up = replace(operator("op"), dropped_states=frozenset(NAMES))
    states = dict.fromkeys(reversed(NAMES), ONE)
    proof = proven(tally(False, **states, a=ONE), tally(True, a=ONE), of=given_up)
    assert list(proof.left_out) == NAMES
    assert list(proven(tally(False, **states), tally(True, **states)).states) == NAMES
    with pytest.raises(IntegrityError) as caught:
        proven(tally(False, **states), tally(True, **dict.fromkeys(states, OTHER)))
    assert caught.value.state == NAMES[0]
    of = with_duplicate_timers(*NAMES)
    with pytest.raises(SnapshotError) as twice:
        proven(tally(False, **states), tally(True, **states), of=of)
    assert twice.value.state == NAMES[0]


def with_duplicate_timers(*names: str) -> Operator:
    header = read_keyed_header(keyed_header(*map(keyed_state, (*names, "a"))), "")
    timers = read_keyed_header(keyed_header(*map(keyed_state, names)), "")
    keyed = keyed_stream(0, {}, Framing.CANONICAL, header, first=0, last=127)
    raw = replace(keyed_stream(0, {}, Framing.RAW, first=0, last=127), timer_services=("one",), parsed=timers)
    made = operator("op", 1, keyed=(keyed,), raw_keyed=(raw,))
    assert made.duplicate_timers
    return made


def test_different_timers_in_keyed_and_raw_keyed_state_are_refused() -> None:
    """The result holds only one of the two copies."""
    of, raw = with_duplicate_timers("timers"), {"are_duplicates": True}
    keyed, result = tally(False, timers=ONE, a=OTHER), tally(True, timers=ONE, a=OTHER)
    assert proven(keyed, tally(False, **raw, timers=ONE), result, of=of).compared == 3
    for others in ({"timers": OTHER}, {"timers": ONE._replace(digest_with_groups=71)}, {}):
        with pytest.raises(SnapshotError, match="timers are stored twice") as caught:
            proven(keyed, tally(False, **raw, **others), result, of=of)
        assert (caught.value.operator, caught.value.state) == ("op", "timers")
    with pytest.raises(SnapshotError, match="timers are stored twice"):
        proven(tally(False, a=OTHER), tally(False, **raw, timers=ONE), tally(True, a=OTHER), of=of)
