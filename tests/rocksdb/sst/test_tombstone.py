"""Files of one range tombstone: their bytes, and that each of our readers applies it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rescale.rocksdb.sst.table import RangeTombstone, SstTable
from rescale.rocksdb.sst.tombstone import write_tombstone


def opened(data: bytes) -> SstTable:
    return SstTable(lambda start, size: data[start : start + size], len(data), "000010.sst")


def test_file_of_a_range_tombstone_has_the_expected_bytes() -> None:
    data = write_tombstone(b"\x2b", b"\x40\0", 1000, column_family=(1, "val"), creation_time=1_700_000_000)
    assert len(data) == 721
    assert data[:40].hex(" ", -4) == (
        "00000000 01000000 00c0f2a1 b0000902 2b0fe803 00000000 00400000 00000001 00000000 187161a1"
    )
    assert data[668:] == bytes.fromhex("01dd043a0008").ljust(41, b"\0") + bytes.fromhex("05000000f7cff485b741e288")


@given(st.binary(max_size=300), st.binary(max_size=300), st.integers(0, (1 << 56) - 1), st.text(max_size=50))
def test_random_range_tombstone_is_read_back(begin: bytes, end: bytes, sequence: int, state: str) -> None:
    table = opened(write_tombstone(begin, end, sequence, column_family=(7, state), creation_time=1))
    assert list(table.range_tombstones()) == [RangeTombstone(begin, end, sequence)]
    assert list(table.index_entries()) == []
    properties = table.properties
    assert (properties.column_family, properties.entry_count) == (state, 1)
