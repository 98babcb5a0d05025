"""Records of a MANIFEST, at all places in a block, and damaged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.rocksdb.manifest.log_framing import BLOCK_SIZE, masked_crc32c, read_log
from rescale.text.errors import SnapshotError, UnsupportedError
from support.manifests import FIRST, FULL, LAST, MIDDLE, log, piece


def payloads(data: bytes) -> list[bytes]:
    return [record.payload for record in read_log(data, "MANIFEST")]


def test_checksum_is_masked_as_rocksdb_does() -> None:
    assert masked_crc32c(b"123456789") == 0xC78AB0E5


@pytest.mark.parametrize("bytes_left", range(9))
def test_record_that_ends_near_the_end_of_a_block_is_read(bytes_left: int) -> None:
    records = [b"a" * (BLOCK_SIZE - 7 - bytes_left), b"next", b"", b"b" * 100_000, b"end"]
    assert payloads(log(*records)) == records


@given(st.lists(st.integers(0, 80_000).map(lambda size: bytes([size % 251]) * size), max_size=6))
def test_random_records_are_read_back(records: list[bytes]) -> None:
    assert payloads(log(*records)) == records


def test_empty_record_is_not_taken_for_padding() -> None:
    assert payloads(piece(FULL, b"") + piece(FULL, b"x")) == [b"", b"x"]


def test_zeros_are_skipped_to_the_end_of_the_block() -> None:
    first = piece(FULL, b"x")
    assert payloads(first + bytes(BLOCK_SIZE - len(first)) + piece(FULL, b"y")) == [b"x", b"y"]
    assert payloads(first + bytes(100)) == [b"x"]


def test_offset_of_a_record_is_that_of_its_first_fragment() -> None:
    records = [b"a" * 40_000, b"b"]
    assert [record.offset for record in read_log(log(*records), "MANIFEST")] == [0, 40_014]


def test_log_cut_inside_a_record_is_refused() -> None:
    records = [b"one", b"", b"three" * 5]
    data = log(*records)
    record_count_by_end = {len(log(*records[:count])): count for count in range(len(records) + 1)}
    for end in range(len(data)):
        if end in record_count_by_end:
            assert payloads(data[:end]) == records[: record_count_by_end[end]]
        else:
            with pytest.raises(SnapshotError, match="ends inside a record"):
                payloads(data[:end])


def test_record_whose_next_block_is_missing_is_refused() -> None:
    with pytest.raises(SnapshotError, match="ends inside a record"):
        payloads(log(b"x" * 50_000)[:BLOCK_SIZE])


def test_flipped_bit_in_a_log_is_refused() -> None:
    data = log(b"one", b"", b"three" * 5)
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises((SnapshotError, UnsupportedError)):
            payloads(bytes(damaged))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (piece(LAST, b"x"), "out of order"),
        (piece(MIDDLE, b"x"), "out of order"),
        (piece(FIRST, b"x") + piece(FULL, b"y"), "out of order"),
        (piece(FIRST, b"x") + piece(FIRST, b"y"), "out of order"),
        (piece(FIRST, b""), "ends inside a record"),
        (piece(0, b"x"), "type that no MANIFEST has"),
        (piece(5, b"x"), "type that no MANIFEST has"),
        (b"\1" + bytes(100), "padding"),
        (piece(FULL, b"a" * (BLOCK_SIZE - 10)) + b"\0\1\0", "end of a block is not zeros"),
        (piece(FULL, b"a" * (BLOCK_SIZE - 7)).replace(b"a", b"b", 1), "checksum"),
        (piece(FULL, b"a" * BLOCK_SIZE) + bytes(100), "extends beyond"),
    ],
)
def test_damaged_log_is_refused_with_path_and_offset(data: bytes, message: str) -> None:
    with pytest.raises((SnapshotError, UnsupportedError), match=message) as caught:
        payloads(data)
    assert caught.value.path == "MANIFEST"
    assert caught.value.offset is not None
