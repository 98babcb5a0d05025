"""Renames and drops of a request, resolved to operator ids and states."""

from __future__ import annotations

import pytest

from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.operator_id import operator_id_of_uid
from rescale.planning.request.request import make_request
from rescale.planning.request.surgery import request_after, resolve_operator_surgery
from rescale.planning.request.surgery_request import parse_operators, parse_renames, parse_state_drops, parse_surgery
from rescale.snapshot.surgery import NO_SURGERY
from rescale.text.errors import RequestError, UnsupportedError
from support.snapshots import opened
from support.synthetic import element_stream, operator

COUNTS, SINK, SOURCE = operator("counts"), operator("sink"), operator("source", label="where it comes from")
OPERATORS = (COUNTS, SINK, SOURCE)

HEX_ID = "Ab" * 16


def new_ids(*renames: str) -> dict[str, str]:
    return resolve_operator_surgery(OPERATORS, parse_renames(renames)).new_ids


def test_empty_request_has_no_surgery() -> None:
    assert resolve_operator_surgery(OPERATORS, {}) == NO_SURGERY
    assert not NO_SURGERY


def test_new_uid_is_hashed_and_new_id_is_taken_as_it_is() -> None:
    assert new_ids("counts=numbers", f"sink={HEX_ID}") == {
        operator_id_of_uid("counts"): operator_id_of_uid("numbers"),
        operator_id_of_uid("sink"): HEX_ID.lower(),
    }
    renamed_by_uid, renamed_by_id = resolve_operator_surgery(
        OPERATORS, parse_renames(["counts=numbers", f"sink={HEX_ID}"])
    ).renamed
    assert (renamed_by_uid.label, renamed_by_uid.new_label, renamed_by_uid.uid) == ("counts", "numbers", "numbers")
    assert (renamed_by_id.label, renamed_by_id.new_label, renamed_by_id.uid) == ("sink", HEX_ID.lower(), "")


@pytest.mark.parametrize("old", ["source", operator_id_of_uid("source"), "where it comes from"])
def test_operator_is_named_by_uid_id_or_label(old: str) -> None:
    assert new_ids(f"{old}=a=b") == {operator_id_of_uid("source"): operator_id_of_uid("a=b")}


def test_operators_can_swap_names_or_take_a_name_that_becomes_free() -> None:
    assert set(new_ids("counts=sink", "sink=counts").values()) == {
        operator_id_of_uid(uid) for uid in ("counts", "sink")
    }
    assert len(new_ids("counts=sink", "sink=drain")) == 2


@pytest.mark.parametrize(
    ("renames", "message", "found_text"),
    [
        (["cuonts=numbers"], "no operator 'cuonts' in the snapshot", "cuonts"),
        (
            ["counts=numbers", "sink=numbers"],
            "two operators would get the same id",
            "numbers, which counts, renamed, has",
        ),
        (["counts=sink"], "two operators would get the same id", "sink, which sink has"),
        ([f"counts={operator_id_of_uid('sink')}"], "two operators would get the same id", "which sink has"),
        (["counts=counts"], "renamed to the name that it has", "counts"),
        ([f"counts={operator_id_of_uid('counts').upper()}"], "renamed to the name that it has", ""),
        (["counts=a", f"{operator_id_of_uid('counts')}=b"], "the same operator is named twice", "'counts' and"),
        (["counts=a", "counts=b"], "the new name of operator 'counts' is given twice", "counts=b"),
        (["counts"], "not a new name of an operator", "counts"),
        (["=b"], "not a new name of an operator", "=b"),
        (["counts="], "not a new name of an operator", "counts="),
    ],
)
def test_impossible_rename_is_refused(renames: list[str], message: str, found_text: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        new_ids(*renames)
    assert found_text in str(caught.value.found)


def test_uid_longer_than_java_can_write_is_refused() -> None:
    assert new_ids("counts=" + "é" * 32767)
    for uid in ("é" * 32768, "😀" * 10923, "x" * 65536):
        with pytest.raises(RequestError, match="too long for a snapshot"):
            new_ids(f"counts={uid}")


def test_name_of_a_dropped_operator_can_be_taken() -> None:
    surgery = resolve_operator_surgery(OPERATORS, parse_renames(["counts=sink"]), ["sink"])
    assert [dropped.operator_id for dropped in surgery.dropped] == [operator_id_of_uid("sink")]
    assert surgery.new_ids == {operator_id_of_uid("counts"): operator_id_of_uid("sink")}


@pytest.mark.parametrize(
    ("renames", "drops", "message"),
    [
        ([], ["snk"], "no operator 'snk' in the snapshot"),
        ([], ["sink", operator_id_of_uid("sink")], "the same operator is named twice"),
        ([], ["sink", "sink"], "operator 'sink' is dropped twice"),
        ([], [""], "an operator to be dropped has no name"),
        ([], ["sink", "counts", "source"], "every operator would be dropped"),
        (["sink=drain"], ["sink"], "both dropped and renamed"),
    ],
)
def test_impossible_drop_of_an_operator_is_refused(renames: list[str], drops: list[str], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        resolve_operator_surgery(OPERATORS, parse_renames(renames), parse_operators(drops, "dropped"))


CLICKS_OPERATORS = opened("2-clicks").operators


def dropped_states(*state_drops: str) -> list[tuple[str, str, str]]:
    dropped = resolve_operator_surgery(CLICKS_OPERATORS, {}, (), parse_state_drops(state_drops)).dropped_states
    return [(dropped_state.label, dropped_state.name, dropped_state.type) for dropped_state in dropped]


def test_state_is_named_by_operator_and_name_around_the_last_colon() -> None:
    assert dropped_states("clicks-per-user:way", "shards:owners") == [
        ("clicks-per-user", "way", "LIST"),
        ("shards", "owners", "UNION"),
    ]
    assert dropped_states(f"{operator_id_of_uid('revenue')}:prices") == [("revenue", "prices", "BROADCAST")]
    with pytest.raises(RequestError, match="no operator 'a:b'"):
        dropped_states("a:b:c")


def test_a_state_may_have_an_empty_name() -> None:
    list_stream = element_stream(
        0, {"": (DistributionMode.SPLIT_DISTRIBUTE, 3), "x": (DistributionMode.SPLIT_DISTRIBUTE, 1)}
    )
    surgery = resolve_operator_surgery(
        [operator("nameless", elements=(list_stream,))], {}, (), parse_state_drops(["nameless:"])
    )
    (dropped_state,) = surgery.dropped_states
    assert (dropped_state.name, dropped_state.elements) == ("", 3)


@pytest.mark.parametrize(
    ("drops", "state_drops", "message"),
    [
        ([], ["clicks-per-user:ways"], "no state 'ways' in the operator"),
        ([], ["clicks-per-usr:way"], "no operator 'clicks-per-usr' in the snapshot"),
        ([], ["clicks-per-user"], "not a state of an operator"),
        ([], [":way"], "not a state of an operator"),
        ([], ["clicks-per-user:"], "no state '' in the operator"),
        ([], ["shards:owners", "shards:owners"], "dropped twice"),
        ([], ["shards:owners", f"{operator_id_of_uid('shards')}:owners"], "the same state is named twice"),
        (["shards"], ["shards:owners"], "an operator is dropped, and one of its states as well"),
    ],
)
def test_impossible_drop_of_a_state_is_refused(drops: list[str], state_drops: list[str], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        resolve_operator_surgery(CLICKS_OPERATORS, {}, drops, parse_state_drops(state_drops))


def test_misspelled_state_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(RequestError) as caught:
        dropped_states("clicks-per-user:ways")
    assert "did you mean 'way'?" in str(caught.value.advice)
    assert "clicks, pages, way" in str(caught.value.expected)


def test_drop_of_heap_timers_beside_rocksdb_is_refused_with_advice() -> None:
    operators = opened("2-rocksdb-heap-timers").operators
    (timer, *_) = [(o, s.name) for o in operators for t in o.raw_timers if t.parsed for s in t.parsed.states]
    with pytest.raises(UnsupportedError, match="kept on the heap") as caught:
        resolve_operator_surgery(operators, {}, (), (f"{timer[0].label}:{timer[1]}",))
    assert "canonical" in str(caught.value.advice)


def test_new_parallelism_for_a_dropped_operator_is_refused() -> None:
    request = make_request("/s", "/t", ["sink=3"], surgery=parse_surgery(drops=["sink"]))
    with pytest.raises(RequestError, match="is dropped, but the request also changes it in another way"):
        request_after(resolve_operator_surgery(OPERATORS, {}, request.surgery.drops), OPERATORS, request)


def test_misspelled_operator_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(RequestError) as caught:
        new_ids("cuonts=numbers")
    assert "did you mean 'counts'?" in str(caught.value.advice)
    assert "counts, sink" in str(caught.value.expected)


def test_request_finds_renamed_operators_by_their_old_names() -> None:
    request = make_request(
        "/s",
        "/t",
        ["5", "counts=3", "sink=2"],
        max_parallelism=["where it comes from=256"],
        key_hash=["counts=lombok(a)"],
        surgery=parse_surgery(renames=["counts=numbers", "source=origin"]),
    )
    renamed_request = request_after(resolve_operator_surgery(OPERATORS, request.surgery.renames), OPERATORS, request)
    numbers_id, origin_id = operator_id_of_uid("numbers"), operator_id_of_uid("origin")
    assert renamed_request.parallelism == {"": 5, numbers_id: 3, "sink": 2}
    assert renamed_request.max_parallelism == {origin_id: 256}
    assert renamed_request.key_hash == {numbers_id: "lombok(a)"}
    assert request_after(NO_SURGERY, OPERATORS, request) is request


@pytest.mark.parametrize("other_name", ["where it comes from", SOURCE.operator_id, HEX_ID.lower()])
def test_two_values_for_a_renamed_operator_are_refused(other_name: str) -> None:
    """Without the check, the last value would silently win, because both names become the new id."""
    request = make_request(
        "/s", "/t", ["source=2", f"{other_name}=4"], surgery=parse_surgery(renames=[f"source={HEX_ID}"])
    )
    surgery = resolve_operator_surgery(OPERATORS, request.surgery.renames)
    with pytest.raises(RequestError, match="the same operator is named twice"):
        request_after(surgery, OPERATORS, request)
