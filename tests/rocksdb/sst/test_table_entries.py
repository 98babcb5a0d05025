"""Blocks without a checksum: any bytes are read as entries, or end in an error that names the place."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.rocksdb.manifest.edit_writer import varint
from rescale.rocksdb.sst.footer import read_footer
from rescale.rocksdb.sst.table_blocks import BlockHandle
from rescale.rocksdb.sst.table_entries import IndexEntry, IndexFormat, entries, index_entries, rows
from rescale.rocksdb.sst.table_properties import read_properties
from rescale.text.errors import RescaleError, SnapshotError
from support.databases import databases, read_file

ONE_RESTART = bytes(4) + (1).to_bytes(4, "little")


def test_index_with_delta_encoded_handles_is_read() -> None:
    """The first entry has a whole handle; the second block begins where the first one ends."""
    block = bytes([0, 3, *b"abc", 0, 0x80, 0x20, 2, 1, *b"x", 3]) + ONE_RESTART
    form = IndexFormat(has_user_keys=True, is_delta_encoded=True, has_first_keys=False)
    assert list(index_entries(block, form, "", 0)) == [
        IndexEntry(b"abc", BlockHandle(0, 4096)),
        IndexEntry(b"abx", BlockHandle(4101, 4094)),
    ]


@pytest.mark.parametrize("size", [100, 101, (1 << 63) - 1])
def test_index_entry_with_a_negative_or_zero_size_is_refused(size: int) -> None:
    """The size is stored plainly, or as the difference from the previous size. Later code needs sizes above zero."""
    delta_encoded_entry = bytes([2, 1, *b"x"]) + varint(2 * size - 1)
    form = IndexFormat(has_user_keys=True, is_delta_encoded=True, has_first_keys=False)
    for block in (bytes([0, 3, *b"abc", 0, 0]), bytes([0, 3, *b"abc", 0, 100]) + delta_encoded_entry):
        with pytest.raises(SnapshotError, match="an index names an empty block"):
            list(index_entries(block + ONE_RESTART, form, "some.sst", 0))


@pytest.mark.parametrize(
    ("block", "what"),
    [
        (b"\0\x09\0" + bytes(9) + b"\x0a\0\0" + ONE_RESTART, "shares more"),
        (b"\0\5\0a" + ONE_RESTART, "ends too early"),
        (b"\0\1\0a" + ONE_RESTART, "no sequence number"),
        (bytes(4) + (7).to_bytes(4, "little"), "more restart points"),
        (b"", "more restart points"),
    ],
)
def test_malformed_block_is_refused_with_path_and_offset(block: bytes, what: str) -> None:
    with pytest.raises(SnapshotError, match=what) as caught:
        list(rows(block, "some.sst", 1000))
    assert caught.value.path == "some.sst"
    assert (caught.value.offset or 0) >= 1000


@given(st.binary(max_size=60), st.builds(IndexFormat, st.booleans(), st.booleans(), st.booleans()))
def test_block_of_random_bytes_is_read_or_refused(data: bytes, form: IndexFormat) -> None:
    for block in (data, data + ONE_RESTART):
        with suppress(RescaleError):
            list(entries(block, "", 0))
        with suppress(RescaleError):
            list(rows(block, "", 0))
        with suppress(RescaleError):
            list(index_entries(block, form, "", 0))


TABLE_BYTES = read_file(next(file for file in databases("2-rocksdb-native")[0].files if file.name.endswith(".sst")))


@given(st.integers(0, 52), st.binary(max_size=12))
def test_damaged_footer_is_read_or_refused(at: int, data: bytes) -> None:
    footer = TABLE_BYTES[-53:]
    with suppress(RescaleError):
        read_footer((footer[:at] + data + footer[at + len(data) :])[-53:], len(TABLE_BYTES), "", 0)


@given(st.dictionaries(st.sampled_from(["data.size", "num.entries", "column.family.name"]), st.binary(max_size=12)))
def test_random_incomplete_properties_are_refused(value_by_name: dict[str, bytes]) -> None:
    with pytest.raises(RescaleError):
        read_properties({f"rocksdb.{name}".encode(): data for name, data in value_by_name.items()}, "", 0)
