"""The buffer over a key group's bytes, which arrive in pieces of any size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import pytest

from rescale.flink.keyed.group_bytes import EndsTooEarlyError, GroupBytes
from rescale.text.errors import SnapshotError, UnsupportedError

DATA = bytes(range(100))


def bytes_of_group(data: bytes = DATA, piece_size: int = 7) -> GroupBytes:
    return GroupBytes("timers", 12, (data[at : at + piece_size] for at in range(0, len(data), piece_size)))


@pytest.mark.parametrize("piece_size", [1, 7, 100])
def test_bytes_are_taken_across_the_borders_of_pieces(piece_size: int) -> None:
    group_bytes = bytes_of_group(piece_size=piece_size)
    assert group_bytes.take(0) == b""
    assert group_bytes.take(10) == DATA[:10]
    assert group_bytes.u16() == 0x0A0B
    assert group_bytes.non_negative_i32() == 0x0C0D0E0F
    assert group_bytes.offset == 16
    assert b"".join(group_bytes.take_rest()) == DATA[16:]


def test_filling_keeps_what_is_left_and_at_least_doubles_it() -> None:
    group_bytes = bytes_of_group(piece_size=3)
    while len(group_bytes.bytes) < 24:
        size_before = len(group_bytes.bytes)
        assert group_bytes.fill()
        assert len(group_bytes.bytes) >= 2 * size_before
    group_bytes.take(20)
    assert group_bytes.fill()
    assert group_bytes.bytes[group_bytes.at :].tobytes().startswith(DATA[20:24])
    assert group_bytes.offset == 20


def test_pieces_are_not_read_before_they_are_needed() -> None:
    def chunks() -> Iterator[bytes]:
        yield DATA
        raise AssertionError("read too far")

    assert GroupBytes("timers", 12, chunks()).take(100) == DATA


@pytest.mark.parametrize(
    ("take", "offset"),
    [(lambda g: g.take(101), 0), (lambda g: (g.take(97), g.non_negative_i32()), 97), (lambda g: g.take(1000), 0)],
)
def test_a_group_that_ends_too_early_is_named_with_the_offset(take: Callable[[GroupBytes], Any], offset: int) -> None:
    with pytest.raises(EndsTooEarlyError, match="key group 12 of timers ends too early") as caught:
        take(bytes_of_group())
    assert caught.value.offset == offset


def test_negative_counts_and_bytes_behind_the_end_are_errors() -> None:
    with pytest.raises(SnapshotError, match="key group 12 of timers has a negative number"):
        bytes_of_group(b"\xff" * 4).non_negative_i32()
    all_taken = bytes_of_group()
    all_taken.take(100)
    all_taken.finish()
    some_left = bytes_of_group()
    some_left.take(98)
    with pytest.raises(SnapshotError, match="key group 12 of timers has bytes after its end") as caught:
        some_left.finish()
    assert caught.value.offset == 98


def test_an_entry_that_is_too_large_is_refused_before_more_is_read() -> None:
    with (
        patch("rescale.flink.keyed.group_bytes.LARGEST_RECORD_SIZE", 20),
        pytest.raises(UnsupportedError, match="an entry that is too large to move") as caught,
    ):
        bytes_of_group().take(60)
    assert caught.value.expected == "at most 20 bytes in one piece"
