"""Differences between two operators apart from records and elements."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rescale.execution.compare.diff.operator_differences import (
    element_types,
    opaque_state,
    operator_differences,
    shape_of,
    state_types,
)
from rescale.execution.compare.diff.pairs import OperatorPair
from rescale.flink.keyed.header import read_keyed_header
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.metadata.handles import DistributionMode, InlineStream
from rescale.flink.operator_state import read_operator_state_header
from rescale.report.differences import ListedDifference, ListedShape
from rescale.snapshot.model import Operator
from support.snapshot_bytes import INT, LONG, STRING, broadcast_state, keyed_header, keyed_state, operator_header
from support.snapshot_bytes import operator_list as list_state
from support.synthetic import element_stream, operator, own_stream

STATES = {"list": (DistributionMode.SPLIT_DISTRIBUTE, 1)}


def differences(a: Operator | None, b: Operator | None) -> list[ListedDifference]:
    return list(operator_differences(OperatorPair("id", "counts", (a, b))))


def keyed(*states: bytes, key: bytes = STRING) -> Operator:
    header = read_keyed_header(keyed_header(*states, key=key), "")
    return operator("counts", keyed=tuple(own_stream(i, 2, 128, Framing.CANONICAL, header) for i in range(2)))


def with_elements(*headers: bytes, is_parsed: bool = True) -> Operator:
    parsed_headers = [read_operator_state_header(header, "") if is_parsed else header for header in headers]
    return operator(
        "counts", elements=tuple(element_stream(i, STATES, header) for i, header in enumerate(parsed_headers))
    )


def with_coordinator(name: str, data: bytes = b"state") -> Operator:
    plain = operator("counts")
    return replace(plain, entry=replace(plain.entry, coordinator=InlineStream(name, data)))


def finished_operator(*finished_subtasks: int) -> Operator:
    """Return an operator with two subtasks, of which those with these numbers have finished; without numbers, all."""
    partly_finished = operator("counts", finished=finished_subtasks)
    return (
        partly_finished
        if finished_subtasks
        else replace(partly_finished, entry=replace(partly_finished.entry, subtasks=(), fully_finished=True))
    )


def test_missing_operator_differs_only_if_it_has_state() -> None:
    (difference,) = differences(keyed(keyed_state("count")), None)
    assert (difference.found, difference.b) == ("only in A", None)
    (difference,) = differences(None, with_coordinator("x"))
    assert (difference.found, difference.a, difference.b) == ("only in B", None, "0 bytes of state")
    assert differences(None, operator("counts")) == []


@pytest.mark.parametrize(
    ("a", "b", "states"),
    [
        (operator("a"), operator("a"), None),
        (finished_operator(1), finished_operator(1), None),
        (operator("a"), finished_operator(1), ("running", "finished in subtasks 1")),
        (finished_operator(), finished_operator(0), ("finished", "finished in subtasks 0")),
        (operator("a"), finished_operator(), ("running", "finished")),
    ],
)
def test_finished_subtasks_are_compared(a: Operator, b: Operator, states: tuple[str, str] | None) -> None:
    expected = [] if states is None else [ListedDifference("other value", {"operator": "has finished"}, *states)]
    assert differences(a, b) == expected


def test_key_types_are_compared_if_both_sides_know_them() -> None:
    keyed_by_text, keyed_by_number = keyed(keyed_state("count")), keyed(keyed_state("count"), key=INT)
    assert differences(keyed_by_text, keyed_by_text) == []
    assert differences(keyed_by_text, operator("counts")) == []
    assert differences(keyed_by_text, keyed_by_number) == [
        ListedDifference("other type", {"operator": "key"}, "String", "Int")
    ]


def test_handle_of_the_coordinator_is_compared_by_name() -> None:
    assert differences(with_coordinator("a", b"1"), with_coordinator("a", b"2")) == []
    assert differences(with_coordinator("a"), operator("counts")) == []
    (difference,) = differences(with_coordinator("a"), with_coordinator("b"))
    assert (difference.found, difference.a, difference.b) == ("other value", "a", "b")


def test_headers_are_compared_as_bytes_only_if_one_has_an_unknown_serializer() -> None:
    old_header, new_header = operator_header((list_state("list"),)), operator_header((list_state("list", LONG),))
    assert differences(with_elements(old_header), with_elements(new_header)) == []
    assert differences(with_elements(old_header, is_parsed=False), with_elements(old_header)) == []
    (difference,) = differences(with_elements(old_header, is_parsed=False), with_elements(new_header))
    assert difference.item == {"operator": "headers of operator state"}
    assert difference.a == f"{len(old_header)} bytes, with an unknown serializer in them"


def test_types_of_states_are_listed_by_name() -> None:
    two_states = keyed(keyed_state("count"), keyed_state("names", STRING, "LIST"))
    assert state_types(two_states) == {"count": "VALUE Long", "names": "LIST String"}
    assert state_types(replace(two_states, dropped_states=frozenset({"count"}))) == {"names": "LIST String"}
    assert state_types(None) == {}


def test_all_types_that_subtasks_registered_for_a_state_are_listed() -> None:
    headers = (
        operator_header((list_state("list"),), (broadcast_state("rules"),)),
        operator_header((list_state("list", LONG),)),
    )
    types = element_types(with_elements(*headers))
    assert len(types["list"].split(", ")) == 2
    assert types["rules"].endswith("String, Long")
    assert element_types(None) == {}


def test_opaque_state_is_compared_by_its_bytes() -> None:
    assert opaque_state("s", "coordinator", None, None) is None
    same, other = opaque_state("s", "coordinator", b"ab", b"ab"), opaque_state("s", "coordinator", b"ab", b"c")
    assert same is not None
    assert same.differences == ()
    assert other is not None
    assert other.differences == (ListedDifference("other value", {}, "2 bytes", "1 byte"),)
    alone = opaque_state("s", "coordinator", None, b"c")
    assert alone is not None
    assert alone.differences == (ListedDifference("only in B", {}, None, "1 byte"),)


def test_unlisted_operator_has_no_shape() -> None:
    assert shape_of(operator("counts", 3, 256)) == ListedShape(3, 256)
    assert shape_of(None) is None
