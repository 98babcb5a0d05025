"""A header of the result with a state that no header of the source has is found."""

from __future__ import annotations

import pytest

from rescale.execution.compare.validation.headers import ElementHeaderComparer, KeyedHeaderComparer
from rescale.flink.keyed.header import read_keyed_header
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.operator_state import read_operator_state_header
from rescale.text.errors import IntegrityError
from support.snapshot_bytes import keyed_header, keyed_state, operator_header, operator_list
from support.synthetic import element_stream, keyed_stream


def test_state_that_only_the_operator_state_header_of_the_result_has_is_found() -> None:
    holder_of_a, holder_of_a_and_b = (
        element_stream(0, {}, read_operator_state_header(operator_header(tuple(map(operator_list, names))), "header"))
        for names in ("a", "ab")
    )
    ElementHeaderComparer("x").compare([holder_of_a, holder_of_a_and_b], holder_of_a_and_b)
    with pytest.raises(IntegrityError, match="that the source does not have") as caught:
        ElementHeaderComparer("x").compare([holder_of_a], holder_of_a_and_b)
    assert caught.value.state == "b"


def test_state_that_only_the_keyed_header_of_the_result_has_is_found() -> None:
    holder_of_a, holder_of_a_and_b = (
        keyed_stream(
            0,
            {},
            Framing.CANONICAL,
            read_keyed_header(keyed_header(*map(keyed_state, names)), "header"),
            first=0,
            last=1,
        )
        for names in ("a", "ab")
    )
    KeyedHeaderComparer("x").compare([holder_of_a, holder_of_a_and_b], holder_of_a_and_b)
    with pytest.raises(IntegrityError, match="that the source does not have") as caught:
        KeyedHeaderComparer("x").compare([holder_of_a], holder_of_a_and_b)
    assert caught.value.state == "b"
