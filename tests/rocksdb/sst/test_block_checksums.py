"""All blocks of an SST file are checked, of any form that RocksDB writes, in whatever chunks the file comes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rescale.rocksdb.sst import index_places
from rescale.rocksdb.sst.block_checksums import BlockChecksums
from rescale.rocksdb.sst.footer import FOOTER_SIZE
from rescale.rocksdb.sst.table import SstTable
from rescale.rocksdb.sst.table_blocks import TRAILER_SIZE
from rescale.rocksdb.sst.table_entries import rows
from rescale.text.errors import SnapshotError, UnsupportedError
from rocksdb.sst.test_table import STATES, TABLE_FORMATS, fill, opened
from support.databases import databases, read_file
from support.rocksdb_writer import MERGE, written
from support.slow import pairs_in_turn

_PARTITIONED = (
    "index_type=kTwoLevelIndexSearch;partition_filters=1;filter_policy=bloomfilter:10;metadata_block_size=256"
)
FORMS = [*TABLE_FORMATS, *(f"format_version={version};{_PARTITIONED}" for version in (2, 3, 4, 5))]


def tables_of(folder: Path, form: str) -> list[bytes]:
    """Return SST files with tables of this form, one of them with a range tombstone."""
    options = f"{MERGE};compression=kSnappyCompression;block_based_table_factory={{{form}}}"
    with written(folder / "db", STATES, options) as writer:
        fill(writer)
        writer.delete_range("values", b"\x01", b"\x02")
        files = writer.checkpoint(folder / "checkpoint")
        return [read_file(file) for file in files if file.name.endswith(".sst")]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return max(tables_of(tmp_path_factory.mktemp("table"), f"format_version=5;{_PARTITIONED}"), key=len)


def chunks(data: bytes, size: int) -> Iterator[bytes]:
    return (data[i : i + size] for i in range(0, len(data), size))


def assert_all_covered(data: bytes) -> None:
    """Check that each block begins where the previous one ends, from the first byte to the footer: none is left out."""
    offsets, sizes = opened(data, "table").all_blocks()
    ends = offsets + sizes + TRAILER_SIZE
    assert offsets[0] == 0
    assert np.array_equal(offsets[1:], ends[:-1])
    assert ends[-1] == len(data) - FOOTER_SIZE


@pytest.mark.parametrize("form", FORMS)
def test_all_blocks_are_checked_in_every_table_format(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = tables_of(tmp_path, form)
    for data in tables:
        assert_all_covered(data)
        assert b"".join(BlockChecksums(opened(data, "table")).checked(chunks(data, 1000))) == data
    fast_columns = [opened(data, "table").all_blocks() for data in tables]
    monkeypatch.setattr(index_places, "_decode_restarts", lambda *_: None)
    slow_columns = [opened(data, "table").all_blocks() for data in tables]
    assert all(np.array_equal(columns, other) for columns, other in zip(fast_columns, slow_columns, strict=True))


@pytest.mark.parametrize(("form", "prefix_size"), pairs_in_turn(FORMS, [1, 2, 7], quick=1))
def test_key_groups_of_blocks_are_those_of_their_separators(
    form: str, prefix_size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both readers of indexes agree. Keys shorter than the prefix are padded with zeros."""
    tables = [opened(data, "table") for data in tables_of(tmp_path, form)]
    expected = [
        [
            (int.from_bytes(entry.separator[:prefix_size].ljust(prefix_size, b"\0"), "big"), entry.handle.size)
            for entry in table.index_entries()
        ]
        for table in tables
    ]
    assert [list(zip(*table.key_groups_of_blocks(prefix_size), strict=True)) for table in tables] == expected
    monkeypatch.setattr(index_places, "_decode_restarts", lambda *_: None)
    assert [list(zip(*table.key_groups_of_blocks(prefix_size), strict=True)) for table in tables] == expected


@pytest.mark.parametrize("form", FORMS)
def test_blocks_read_together_equal_blocks_read_singly(form: str, tmp_path: Path) -> None:
    for data in tables_of(tmp_path, form):
        table = opened(data, "table")
        entries = list(table.index_entries())
        offsets, sizes = table.data_blocks()
        assert list(zip(offsets, sizes, strict=True)) == [entry.handle for entry in entries]
        if entries:
            blocks = table.read_blocks(offsets, sizes)
            contents = [blocks.data[start:end].tobytes() for start, end in zip(blocks.starts, blocks.ends, strict=True)]
            rows_read = [list(rows(content, "table", 0)) for content in contents]
            assert rows_read == [list(table.rows(entry.handle)) for entry in entries]


@pytest.mark.parametrize("name", ["1.20-rocksdb-native", "2-rocksdb-native", "2-rocksdb-incremental"])
def test_all_blocks_of_flinks_files_are_covered(name: str) -> None:
    for database in databases(name):
        for file in database.files:
            if file.name.endswith(".sst"):
                assert_all_covered(read_file(file))


@pytest.mark.parametrize("chunk_size", [1, 7, 1000, 1 << 20])
def test_checksums_are_checked_for_any_chunk_size(chunk_size: int, table: bytes) -> None:
    checksums = BlockChecksums(opened(table, "table"))
    assert len(checksums) > 100
    assert b"".join(checksums.checked(chunks(table, chunk_size))) == table


@pytest.mark.parametrize("chunk_size", [100, 1 << 20])
def test_flipped_bit_in_a_table_is_refused(chunk_size: int, table: bytes) -> None:
    checksums = BlockChecksums(opened(table, "table"))
    for at in range(0, len(table) - FOOTER_SIZE, 101):
        damaged_table = table[:at] + bytes([table[at] ^ 1 << at % 8]) + table[at + 1 :]
        with pytest.raises(SnapshotError) as raised:
            for _ in checksums.checked(chunks(damaged_table, chunk_size)):
                pass
        assert raised.value.path == "table"
        assert (raised.value.offset or 0) <= at


def test_offset_of_an_error_counts_from_the_start_of_the_merged_file(table: bytes) -> None:
    damaged_table = bytes([table[0] ^ 1]) + table[1:]
    merged_table = SstTable(lambda at, size: table[at : at + size], len(table), "merged", 1000)
    with pytest.raises(SnapshotError) as raised:
        list(BlockChecksums(merged_table).checked([damaged_table]))
    assert (raised.value.path, raised.value.offset) == ("merged", 1000)


def test_table_without_checksums_is_refused_as_unsupported(tmp_path: Path) -> None:
    (data, *_) = tables_of(tmp_path, "checksum=kNoChecksum;format_version=5")
    with pytest.raises(UnsupportedError):
        BlockChecksums(opened(data, "table"))
