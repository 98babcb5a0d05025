"""Pairs of elements and headers that are compared, on constructed operators."""

from __future__ import annotations

import pytest

from rescale.execution.compare.validation.coverage import broadcast_states, check_elements
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.operator_state import OperatorStateHeader
from rescale.flink.slot import Slot
from rescale.snapshot.model import ElementStream, Operator
from rescale.text.errors import IntegrityError
from support.synthetic import element_stream, header_of, operator

SPLIT, UNION, BROADCAST = DistributionMode.SPLIT_DISTRIBUTE, DistributionMode.UNION, DistributionMode.BROADCAST


def operator_with_elements(parallelism: int, *streams: ElementStream, raw: bool = False) -> Operator:
    return operator("op", parallelism, **{"raw_elements" if raw else "elements": streams})


def streams_with_one_element(parallelism: int, mode: DistributionMode = SPLIT, name: str = "a") -> list[ElementStream]:
    return [element_stream(i, {name: (mode, 1)}) for i in range(parallelism)]


@pytest.mark.parametrize("raw", [False, True])
def test_states_modes_and_subtasks_of_elements_are_compared(raw: bool) -> None:
    slot = Slot.RAW_OPERATOR if raw else Slot.OPERATOR
    old = operator_with_elements(2, *streams_with_one_element(2), raw=raw)
    check_elements(old, operator_with_elements(3, *streams_with_one_element(3), raw=raw), slot)
    check_elements(old, operator_with_elements(2, *streams_with_one_element(2), raw=raw), slot)
    for new, message in (
        (operator_with_elements(3, *streams_with_one_element(3, UNION), raw=raw), "states"),
        (operator_with_elements(3, *streams_with_one_element(3, SPLIT, "b"), raw=raw), "states"),
        (operator_with_elements(3, raw=raw), "states"),
        (operator_with_elements(3, *streams_with_one_element(2), raw=raw), "subtasks with"),
        (operator_with_elements(3, *streams_with_one_element(3)[1:], raw=raw), "subtasks with"),
        (
            operator_with_elements(3, *streams_with_one_element(3), *streams_with_one_element(1), raw=raw),
            "subtasks with",
        ),
        (operator_with_elements(2, *streams_with_one_element(1), raw=raw), "subtasks with"),
    ):
        with pytest.raises(IntegrityError, match=f"{slot} {message}|{message} {slot} state") as caught:
            check_elements(old, new, slot)
        assert caught.value.operator == "op"


def test_elements_at_same_parallelism_must_lie_in_the_same_subtasks() -> None:
    old = operator_with_elements(3, *streams_with_one_element(3)[1:])
    check_elements(old, operator_with_elements(3, *streams_with_one_element(3)[1:]), Slot.OPERATOR)
    with pytest.raises(IntegrityError, match="subtasks with"):
        check_elements(old, operator_with_elements(3, *streams_with_one_element(3)), Slot.OPERATOR)
    check_elements(old, operator_with_elements(2, *streams_with_one_element(2)), Slot.OPERATOR)


def test_elements_in_result_of_source_without_elements_are_refused() -> None:
    check_elements(operator_with_elements(2), operator_with_elements(3), Slot.OPERATOR)
    empty = element_stream(0, {})
    with pytest.raises(IntegrityError, match="subtasks with"):
        check_elements(operator_with_elements(2), operator_with_elements(3, empty), Slot.OPERATOR)


def listing_header(*names: str) -> OperatorStateHeader:
    return OperatorStateHeader(6, False, header_of(*names).states, ())


def operator_with_headers(parallelism: int, *headers: OperatorStateHeader) -> Operator:
    streams = (element_stream(i, {"a": (SPLIT, 1)}, header) for i, header in enumerate(headers))
    return operator_with_elements(parallelism, *streams)


def test_header_is_compared_with_its_own_subtasks_at_the_same_parallelism() -> None:
    """At another parallelism, a header is compared with the merged headers of all subtasks."""
    old = operator_with_headers(2, listing_header("a"), listing_header("a", "b"))
    check_elements(old, operator_with_headers(2, listing_header("a"), listing_header("a", "b")), Slot.OPERATOR)
    with pytest.raises(IntegrityError, match="operator-state header of subtask 0"):
        check_elements(old, operator_with_headers(2, listing_header("a", "b"), listing_header("a", "b")), Slot.OPERATOR)
    with pytest.raises(IntegrityError, match="operator-state header of subtask 1"):
        check_elements(old, operator_with_headers(2, listing_header("a"), listing_header("a")), Slot.OPERATOR)
    check_elements(old, operator_with_headers(3, *[listing_header("a", "b")] * 3), Slot.OPERATOR)
    with pytest.raises(IntegrityError, match="operator-state header of subtask 2"):
        check_elements(
            old,
            operator_with_headers(3, listing_header("a", "b"), listing_header("a", "b"), listing_header("a")),
            Slot.OPERATOR,
        )


def test_broadcast_states_are_listed_by_subtask_if_they_have_elements() -> None:
    states = {"a": (BROADCAST, 1), "b": (BROADCAST, 0), "c": (SPLIT, 1), "d": (UNION, 1)}
    streams = [element_stream(0, states), element_stream(3, {"a": (BROADCAST, 1)})]
    assert list(broadcast_states(streams)) == [("a", 0), ("a", 3)]
