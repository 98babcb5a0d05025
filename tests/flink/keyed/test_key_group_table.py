"""Byte ranges of key groups, from their offsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.flink.extents import ends_by_offset
from rescale.flink.keyed.key_group_table import Framing, group_extents
from rescale.text.errors import SnapshotError


def test_a_canonical_group_ends_where_the_next_one_begins() -> None:
    assert group_extents(5, (0, 10, 0, 30, 0), 45, Framing.CANONICAL) == (None, (10, 20), None, (30, 15), None)


def test_canonical_stream_without_groups_is_accepted() -> None:
    assert group_extents(0, (0, 0), 7, Framing.CANONICAL) == (None, None)
    assert group_extents(0, (), 7, Framing.CANONICAL) == ()


def test_every_heap_group_has_a_block() -> None:
    assert group_extents(0, (7, 17, 27), 40, Framing.HEAP) == ((7, 10), (17, 10), (27, 13))


def test_raw_groups_lie_in_any_order_and_may_begin_at_0() -> None:
    assert group_extents(3, (20, -1, 0, 20), 33, Framing.RAW) == ((20, 13), None, (0, 20), (20, 13))


def test_a_raw_group_may_be_empty() -> None:
    assert group_extents(0, (5,), 5, Framing.RAW) == ((5, 0),)


@pytest.mark.parametrize(
    ("offsets", "framing", "key_group"),
    [
        ((10, 46), Framing.CANONICAL, 8),
        ((10, -1), Framing.CANONICAL, 8),
        ((0, 10), Framing.HEAP, 7),
        ((-1, 10), Framing.HEAP, 7),
        ((10, 1 << 62), Framing.HEAP, 8),
        ((-2, 10), Framing.RAW, 7),
        ((0, 46), Framing.RAW, 8),
    ],
)
def test_an_offset_outside_the_stream_names_its_group(
    offsets: tuple[int, ...], framing: Framing, key_group: int
) -> None:
    with pytest.raises(SnapshotError, match=f"key group {key_group} lies outside its stream"):
        group_extents(7, offsets, 45, framing)


@pytest.mark.parametrize("framing", [Framing.CANONICAL, Framing.HEAP])
@pytest.mark.parametrize("offsets", [(10, 20, 15), (10, 10)])
def test_descending_offsets_are_refused(offsets: tuple[int, ...], framing: Framing) -> None:
    with pytest.raises(SnapshotError, match="do not ascend") as caught:
        group_extents(0, offsets, 45, framing)
    assert caught.value.found == f"{offsets[-2]} before {offsets[-1]}"


@given(st.lists(st.integers(1, 50), max_size=20), st.data())
def test_extents_of_consecutive_groups_are_found(lengths: list[int], data: st.DataObject) -> None:
    header_size = data.draw(st.integers(1, 9))
    at, offsets, expected = header_size, [], []
    for length in lengths:
        is_present = data.draw(st.booleans())
        offsets.append(at if is_present else 0)
        expected.append((at, length) if is_present else None)
        at += length if is_present else 0
    assert group_extents(0, offsets, at, Framing.CANONICAL) == tuple(expected)


@given(st.lists(st.integers(0, 99)), st.integers(0, 100))
def test_ends_are_the_next_larger_offsets(offsets: list[int], more_bytes: int) -> None:
    size = max(offsets, default=0) + more_bytes
    assert ends_by_offset(offsets, size) == {o: min((p for p in offsets if p > o), default=size) for o in offsets}
