"""SST files read without RocksDB: they have the rows that RocksDB finds in them."""

from __future__ import annotations

import base64
import tempfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescale.flink.key_groups import prefix_size
from rescale.rocksdb.consistency import checked_manifest
from rescale.rocksdb.engine.changes import entry_batches as entries_module
from rescale.rocksdb.engine.changes.entry_batches import entry_batches
from rescale.rocksdb.manifest.edit_reader import EditReader
from rescale.rocksdb.manifest.version_edit import LiveFile
from rescale.rocksdb.sst.block_checksums import BlockChecksums
from rescale.rocksdb.sst.footer import FOOTER_SIZE, read_footer
from rescale.rocksdb.sst.table import SstTable
from rescale.rocksdb.sst.table_blocks import BlockHandle, ChecksumType, DataBlocks
from rescale.rocksdb.sst.table_entries import TableRow, entries
from rescale.rocksdb.sst.table_properties import PROPERTY_PREFIX
from rescale.rocksdb.stored_files import StoredFile
from rescale.text.errors import RescaleError, SnapshotError, UnsupportedError
from support.databases import FIXTURES, Rows, databases, read_file, read_rows
from support.examples import examples
from support.rocksdb_writer import MERGE, Writer, written

FIXTURE_NAMES = sorted(path.name for path in FIXTURES.glob("*-rocksdb*") if path.name.split("-")[1] == "rocksdb")
DELETE, VALUE, MERGED, SINGLE_DELETE = 0, 1, 2, 7
STATES = ["values", "lists"]

FLINK_1_7 = zlib.decompress(
    base64.b85decode(
        "c-n=Nv1=4T6vp42W)BY=FXtH&1dD*4;^5iYC{eVvxHKXLW^dnJhRn_`GqZQMb_N1sC)TzW+6va`w6Yb%LJR+ZAZVv=cH{0MQ3rm@"
        "?fbrYJKxM4bl8$$42m&?4huroD&Ma9N1?o9*B-(8ag&U9Y!vcP(GMO9ixGDsRLG@{aKT-kVlnd~`@1zYIFSoJk;<WwdU^#e|HD1s"
        "PUyLVc|BnWE7gQ?qOw@?iHN1jxr`XB21jdJ#5h)xB<QZzmN*qgxWp)&p`yyo+~HhWyj3Z%95n3)t(A!$X_2NmoL;IlgTj%(os4n!"
        ";Pr<9PF2f{gcID#hd6*<T||YBf>JmOuw2#4poJY8QEAgkGgqjmZX2LqYl(@4<1;jVZ2;X$DG$c?T5I@YG*jeBibm*&KHgtBLZR#<"
        "=Qn&KO;Jaiw?~_I59@HIYNfNdj8~kUWsM+SLQO5uw%~00clq!F;KCU(re?*_=uD~98CYx8Hopp&`*T$2jrRV7#`YO8FLuLc>ov0Z"
        "`b?+{3#GWqmxz1B6XJ!x&cqL*N0)m@+#$AzjCe}CBKC=o#7XLKp14l<ZhORYqVF4bF6<7Vd+d)TQ{KU|p!)M{y?yx^PPE$XpXGq{"
        "O8OKZ++h2`xvxPV{yTh>@9)3uz1jHk_!q|@9!C"
    )
)
"""File of the state `clicks`, written by RocksDB 5.7.5, the library of Flink 1.7."""


def opened(data: bytes, path: str = "some.sst") -> SstTable:
    def read(start: int, length: int) -> bytes:
        assert 0 <= start <= start + length <= len(data)
        return data[start : start + length]

    return SstTable(read, len(data), path)


def stored_number(table: SstTable, name: str) -> int:
    """Return a number in the properties block, which RocksDB wrote."""
    values = dict(entries(table._block(table.properties_handle), table.path, 0))
    return EditReader(values[f"{PROPERTY_PREFIX}{name}".encode()], table.path, 0).varint()


def all_blocks_of(table: SstTable) -> DataBlocks:
    return table.read_blocks(*table.data_blocks())


def decoded_entries(table: SstTable) -> list[TableRow]:
    """Return all entries, as the compiled loops decode them."""
    return [
        TableRow(batch.key(i), int(trailer) >> 8, int(trailer) & 0xFF, batch.data[start:end].tobytes())
        for batch in entry_batches(table)
        for i, (trailer, start, end) in enumerate(
            zip(batch.trailers, batch.value_starts, batch.value_ends, strict=True)
        )
    ]


def rows_of(table: SstTable) -> list[TableRow]:
    """Return all rows, after checking that each is in its block by the index, and that blocks lie end to end."""
    all_rows: list[TableRow] = []
    previous_separator, end = b"", 0
    for separator, block in table.index_entries():
        rows = list(table.rows(block))
        assert previous_separator <= rows[0].key
        assert rows[-1].key <= separator
        assert block.offset == end
        previous_separator, end = separator, block.offset + block.size + 5
        all_rows += rows
    assert end == stored_number(table, "data.size")
    return all_rows


def check_file(data: bytes, live: LiveFile, family: str) -> list[TableRow]:
    """Check that a file's properties and its entry in the MANIFEST agree with its rows, and return these."""
    table = opened(data, live.name)
    rows, properties = rows_of(table), table.properties
    assert decoded_entries(table) == [row._replace(sequence=properties.global_sequence or row.sequence) for row in rows]
    assert table.first_and_last_row() == ((rows[0], rows[-1]) if rows else None)
    assert properties.column_family == family
    range_deletions = len(list(table.range_tombstones()))
    assert len(rows) == properties.entry_count - range_deletions
    assert [row.key for row in rows] == sorted(row.key for row in rows)
    assert all(live.smallest_user_key <= row.key <= live.largest_user_key for row in rows)
    assert all(live.smallest_sequence <= row.sequence <= live.largest_sequence for row in rows if row.sequence)
    if not range_deletions:
        assert (rows[0].key, rows[-1].key) == (live.smallest_user_key, live.largest_user_key)
        assert sum(len(row.key) + 8 for row in rows) == stored_number(table, "raw.key.size")
        assert sum(len(row.value) for row in rows) == stored_number(table, "raw.value.size")
    return rows


def merged_rows(unmerged: Iterable[TableRow]) -> dict[bytes, bytes]:
    """Return the values left when newer rows are applied to older ones; range tombstones are not applied."""
    values: dict[bytes, bytes] = {}
    for row in sorted(unmerged, key=lambda row: row.sequence):
        if row.kind in (DELETE, SINGLE_DELETE):
            values.pop(row.key, None)
        elif row.kind == MERGED and row.key in values:
            values[row.key] += b"," + row.value
        else:
            assert row.kind in (VALUE, MERGED)
            values[row.key] = row.value
    return values


def rows_by_state(files: Iterable[StoredFile], states: list[str]) -> dict[str, dict[bytes, bytes]]:
    file_by_name = {file.name: file for file in files}
    manifest = checked_manifest(list(file_by_name.values()), read_file, states)
    return {
        family.name: merged_rows(
            row for live in family.files for row in check_file(read_file(file_by_name[live.name]), live, family.name)
        )
        for family in manifest.column_families
        if family.name != "default"
    }


def test_file_of_the_oldest_release_of_flink_is_read() -> None:
    """Its properties say less than those of later releases."""
    table = opened(FLINK_1_7)
    assert rows_of(table) == [TableRow(b"\5a", 1, VALUE, b"1"), TableRow(b"\6b", 2, VALUE, b"2")]
    assert (table.properties.column_family, table.properties.entry_count) == ("clicks", 2)
    assert [group.tolist() for group in table.key_groups_of_blocks(1)] == [[7], [36]]
    assert b"".join(BlockChecksums(table).checked([FLINK_1_7])) == FLINK_1_7


@pytest.mark.parametrize("name", FIXTURE_NAMES)
def test_rows_of_flinks_files_equal_those_that_rocksdb_reads(name: str, tmp_path: Path) -> None:
    """Files that Flink clipped also hold rows that a range tombstone hides."""
    is_clipped = "2to3" in name or "imported" in name
    for database in databases(name):
        expected = read_rows(database.files, database.states, database.key_groups, database.max_parallelism, tmp_path)
        prefix = prefix_size(database.max_parallelism)
        rows_by_key: Rows = {
            (state, int.from_bytes(key[:prefix], "big"), key[prefix:]): value
            for state, rows in rows_by_state(database.files, database.states).items()
            for key, value in rows.items()
        }
        assert expected
        assert {row: rows_by_key[row] for row in expected} == expected
        assert is_clipped or rows_by_key.keys() == expected.keys()


@pytest.mark.parametrize("name", FIXTURE_NAMES)
def test_flink_2_writes_xxh3_checksums_and_flink_1_crc32c(name: str) -> None:
    """Flink 1 cannot read XXH3 checksums, so files of Flink 2 cannot go back to Flink 1."""
    tables = [read_file(file) for database in databases(name) for file in database.files if file.name.endswith(".sst")]
    checksum_types = {read_footer(data[-FOOTER_SIZE:], len(data), "", 0).checksum_type for data in tables}
    assert checksum_types == {ChecksumType.XXH3 if name.startswith("2") else ChecksumType.CRC32C}


def fill(writer: Writer) -> None:
    for i in range(3000):
        key = bytes([i * 128 // 3000]) + b"key-%05d" % i
        writer.put("values", key, b"value %d " % (i * i) * (1 + i % 7))
        for element in range(i % 3):
            writer.add("lists", key, b"%d" % element)
    writer.flush()
    for i in range(0, 3000, 5):
        writer.delete("values", bytes([i * 128 // 3000]) + b"key-%05d" % i)


TABLE_FORMATS = [
    "format_version=5",
    "format_version=5;checksum=kXXH3",
    "format_version=5;checksum=kxxHash",
    "format_version=5;checksum=kxxHash64",
    "format_version=2;index_block_restart_interval=8",
    "format_version=3",
    "format_version=4;index_block_restart_interval=8",
    "format_version=5;block_size=512;index_type=kTwoLevelIndexSearch;metadata_block_size=256;block_restart_interval=3",
    "format_version=5;index_type=kBinarySearchWithFirstKey;index_shortening=kNoShortening",
    "format_version=5;enable_index_compression=0;filter_policy=bloomfilter:10",
]


@pytest.mark.parametrize(
    ("table_format", "compression"),
    [
        *((table_format, "kSnappyCompression") for table_format in TABLE_FORMATS),
        *((TABLE_FORMATS[0], f"k{name}Compression") for name in ("No", "Zlib", "BZip2", "LZ4", "LZ4HC")),
        (TABLE_FORMATS[0], "kZSTD"),
    ],
)
def test_tables_of_every_supported_format_and_compression_are_read(
    table_format: str, compression: str, tmp_path: Path
) -> None:
    options = f"{MERGE};compression={compression};block_based_table_factory={{{table_format}}}"
    with written(tmp_path / "db", STATES, options) as writer:
        fill(writer)
        files = writer.checkpoint(tmp_path / "checkpoint")
        rows = rows_by_state(files, STATES)
    assert rows == writer.model
    sizes = [file.length for file in files if file.name.endswith(".sst")]
    assert max(sizes) > 20_000


KEYS = [bytes([i]) + b"key" * i for i in range(6)]
CHANGE = st.tuples(st.sampled_from(KEYS), st.none() | st.binary(max_size=300))


@settings(max_examples=examples(150))
@given(
    table_format=st.sampled_from(TABLE_FORMATS),
    compression=st.sampled_from(["kNoCompression", "kSnappyCompression", "kLZ4Compression", "kZSTD"]),
    block_size=st.integers(64, 4096),
    read_at_once=st.integers(1, 5000),
    flushed_changes=st.lists(st.lists(CHANGE, min_size=1, max_size=40), min_size=1, max_size=4),
    is_list=st.booleans(),
    compacts=st.booleans(),
)
def test_entries_of_any_history_give_what_rocksdb_reads(
    table_format: str,
    compression: str,
    block_size: int,
    read_at_once: int,
    flushed_changes: list[list[tuple[bytes, bytes | None]]],
    is_list: bool,
    compacts: bool,
) -> None:
    options = f"{MERGE};compression={compression};block_based_table_factory={{block_size={block_size};{table_format}}}"
    state = "lists" if is_list else "values"
    with tempfile.TemporaryDirectory() as folder, written(Path(folder, "db"), STATES, options) as writer:
        for changes in flushed_changes:
            for key, value in changes:
                if value is None:
                    writer.delete(state, key)
                else:
                    (writer.add if is_list else writer.put)(state, key, value)
            writer.flush()
        if compacts:
            writer.compact(state)
        files = writer.checkpoint(Path(folder, "checkpoint"))
        with patch.object(entries_module, "_BYTES_AT_ONCE", read_at_once):
            assert rows_by_state(files, STATES) == writer.model
        assert writer.rows(state) == writer.model[state]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ("block_based_table_factory={format_version=6}", "an unsupported format"),
        ("block_based_table_factory={checksum=kNoChecksum;format_version=5}", "an unsupported format"),
        (
            "block_based_table_factory={format_version=5;data_block_index_type=kDataBlockBinaryAndHash}",
            "hash index",
        ),
        (
            "compression=kZSTD;compression_opts={max_dict_bytes=4096};block_based_table_factory={format_version=5}",
            "a dictionary",
        ),
    ],
)
def test_unsupported_table_format_is_refused(options: str, what: str, tmp_path: Path) -> None:
    with written(
        tmp_path / "db", STATES, f"{MERGE};bottommost_compression=kDisableCompressionOption;{options}"
    ) as writer:
        fill(writer)
        writer.flush()
        writer.compact("values")
        files = writer.checkpoint(tmp_path / "checkpoint")
    tables = [file for file in files if file.name.endswith(".sst")]
    largest = max(tables, key=lambda file: file.length)
    for read in (rows_of, all_blocks_of):
        with pytest.raises(UnsupportedError, match=what) as caught:
            read(opened(read_file(largest), largest.uri))
        assert caught.value.path == largest.uri
        assert caught.value.advice


def test_table_compressed_with_a_dictionary_is_read_except_for_its_rows(tmp_path: Path) -> None:
    """The readable rest is enough to join databases with such files, and to measure their key groups."""
    options = "compression=kZSTD;compression_opts={max_dict_bytes=4096};block_based_table_factory={format_version=5}"
    with written(tmp_path / "db", STATES, f"{MERGE};{options}") as writer:
        fill(writer)
        writer.compact("values")
        files = writer.checkpoint(tmp_path / "checkpoint")
    largest = max((file for file in files if file.name.endswith(".sst")), key=lambda file: file.length)
    table = opened(read_file(largest), largest.uri)
    blocks = [entry.handle for entry in table.index_entries()]
    assert sum(block.size + 5 for block in blocks) == stored_number(table, "data.size")
    assert table.properties.entry_count == len(writer.model["values"])
    assert list(table.range_tombstones()) == []
    with pytest.raises(UnsupportedError, match="a dictionary"):
        table.rows(blocks[0])
    with pytest.raises(UnsupportedError, match="a dictionary"):
        table.first_and_last_row()


def test_only_footer_index_and_wanted_blocks_are_read(tmp_path: Path) -> None:
    with written(tmp_path / "db", STATES, f"{MERGE};block_based_table_factory={{format_version=5}}") as writer:
        fill(writer)
        writer.compact("values")
        files = writer.checkpoint(tmp_path / "checkpoint")
    data = max((read_file(file) for file in files if file.name.endswith(".sst")), key=len)
    read_lengths: list[int] = []

    def read(start: int, length: int) -> bytes:
        read_lengths.append(length)
        return data[start : start + length]

    table = SstTable(read, len(data), "some.sst")
    assert read_lengths == [4096]
    blocks = list(table.index_entries())
    assert len(blocks) > 10
    assert read_lengths == [4096] or read_lengths == [4096, table.index_size]
    list(table.rows(blocks[1].handle))
    assert read_lengths[-1] == blocks[1].handle.size + 5


@pytest.mark.parametrize("name", ["1.20-rocksdb-changing", "2-rocksdb-changing"])
def test_damaged_table_gives_the_same_rows_or_is_refused(name: str) -> None:
    database = databases(name)[0]
    data = read_file(next(file for file in database.files if file.name.endswith(".sst")))
    expected = rows_of(opened(data))
    errors = []
    for at in range(len(data)):
        damaged_table = data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :]
        try:
            assert rows_of(opened(damaged_table)) == expected
        except RescaleError as error:
            errors.append(error)
    assert len(errors) > len(data) * 0.9
    assert {error.path for error in errors} == {"some.sst"}
    for size in range(0, len(data), 7):
        with pytest.raises(SnapshotError) as caught:
            rows_of(opened(data[:size]))
        assert caught.value.path == "some.sst"


def test_block_outside_the_file_is_refused() -> None:
    database = databases("2-rocksdb-native")[0]
    table = opened(read_file(next(file for file in database.files if file.name.endswith(".sst"))))
    with pytest.raises(SnapshotError, match="outside of its file"):
        list(table.rows(BlockHandle(0, 1 << 40)))


def test_error_names_the_offset_of_the_block_that_cannot_be_decoded(tmp_path: Path) -> None:
    with written(tmp_path / "db", STATES, f"{MERGE};block_based_table_factory={{format_version=5}}") as writer:
        fill(writer)
        writer.compact("values")
        files = writer.checkpoint(tmp_path / "checkpoint")
        data = max((read_file(file) for file in files if file.name.endswith(".sst")), key=len)
    table = opened(data)
    offsets = table.data_blocks()[0]
    with (
        patch("rescale.rocksdb.engine.changes.entry_loop.measure_entries", return_value=(0, 0, 3)),
        pytest.raises(SnapshotError, match="cannot be decoded") as caught,
    ):
        list(entry_batches(table))
    assert caught.value.offset == offsets[3] > 0
