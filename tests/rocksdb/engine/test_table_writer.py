"""New SST files: like RocksDB's, of limited size, the same for the same rows, and read by old and new RocksDB."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rescale.flink.key_groups import KeyGroupRange
from rescale.rocksdb.assembly.new_database import NewTable, new_manifest
from rescale.rocksdb.consistency import checked_manifest
from rescale.rocksdb.engine.table_writer import Rows, TableWriter, WrittenTable
from rescale.rocksdb.manifest.manifest_writer import write_current, write_manifest
from rescale.rocksdb.sst.footer import FOOTER_SIZE, read_footer
from rescale.rocksdb.sst.table import SstTable
from rescale.rocksdb.sst.table_blocks import TRAILER_SIZE, ChecksumType, uncompressed_content
from rescale.rocksdb.sst.table_entries import TableRow, entries
from rescale.rocksdb.stored_files import CURRENT
from rescale.text.errors import IntegrityError, SnapshotError
from support.assembled import Part, check, check_further_writes, check_our_reading
from support.databases import read_file
from support.examples import examples
from support.flinks_rocksdb import FlinksRocksdb
from support.rocksdb_writer import listed
from support.sst_files import sst_file

CREATION_TIME = 1_700_000_000

LEFT_OUT_PROPERTIES = {"external_sst_file.version", "external_sst_file.global_seqno", "compression_options"}
PLACE_PROPERTIES = {"creating.db.identity", "creating.host.identity", "creating.session.identity"}
TIME_PROPERTIES = {"creation.time", "oldest.key.time", "file.creation.time"}
SIZE_PROPERTIES = {"data.size", "tail.start.offset", "index.size"}
"""Properties that differ from RocksDB's, because its LZ4 gives blocks of other lengths, which the index holds."""


def rows_in_buffer(pairs: Iterable[tuple[bytes, bytes]]) -> Rows:
    """Return rows in one buffer; the length of the value stands between key and value, as in records."""
    data, offsets = bytearray(), []
    for key, value in pairs:
        at = len(data)
        data += key + len(value).to_bytes(4, "big") + value
        offsets.append((at, at + len(key), at + len(key) + 4, len(data)))
    columns = np.array(offsets, np.int64).reshape(-1, 4).T
    return Rows(np.frombuffer(bytes(data) or b"\0", np.uint8), *(column.copy() for column in columns))


def write(
    batches: Sequence[Sequence[tuple[bytes, bytes]]], *, name: str = "place", table_bytes: int = 1 << 26
) -> list[WrittenTable[BytesIO]]:
    """Write batches of rows in the order in which they come."""
    writer = TableWriter(
        lambda _: BytesIO(),
        name,
        creation_time=CREATION_TIME,
        path="s3://bucket/file",
        state="state",
        table_bytes=table_bytes,
    )
    tables: list[WrittenTable[BytesIO]] = []
    for batch in batches:
        tables += writer.write(rows_in_buffer(batch), np.arange(len(batch)))
    return [*tables, *writer.finish()]


def opened_table(data: bytes) -> SstTable:
    return SstTable(lambda start, size: data[start : start + size], len(data), "some.sst")


def random_rows(count: int) -> list[tuple[bytes, bytes]]:
    rng = random.Random(count)
    keys = {bytes([rng.randrange(128)]) + rng.randbytes(rng.randint(1, 20)) for _ in range(count)}
    return [(key, rng.randbytes(rng.randint(0, 200))) for key in sorted(keys)]


Pairs = list[tuple[bytes, bytes]]

KEYS = st.binary(min_size=1, max_size=12) | st.text("ab\0\1", min_size=1, max_size=40).map(str.encode)
SOME_KEYS = st.lists(KEYS, min_size=1, max_size=60, unique=True).map(sorted)
LONG_KEY = st.builds(lambda byte, size: byte * size, st.sampled_from([b"a", b"b", b"\xff"]), st.integers(200, 70_000))


@st.composite
def row_pairs(draw: st.DrawFn) -> Pairs:
    """Draw rows: keys with and without shared prefixes; empty, large and incompressible values."""
    heads = draw(SOME_KEYS)
    rng = random.Random(draw(st.integers(0, 1 << 32)))
    keys = {head + rng.randbytes(rng.randint(0, 3)) for head in heads for _ in range(rng.choice([1, 30]))}
    keys |= set(draw(st.lists(LONG_KEY, max_size=2)))
    largest = draw(st.sampled_from([0, 20, 300, 9000]))
    is_random = draw(st.booleans())

    def value() -> bytes:
        size = rng.randint(0, largest)
        return rng.randbytes(size) if is_random else b"value " * (size // 6)

    pairs = [(key, value()) for key in sorted(keys)]
    if draw(st.booleans()):
        at = rng.randrange(len(pairs))
        pairs[at] = pairs[at][0], rng.randbytes(rng.choice([5_000, 300_000]))
    return pairs


def blocks_of(data: bytes) -> list[tuple[bytes, list[TableRow], bytes]]:
    """Return the key in the index, the rows, and the bytes before compression of each block."""
    table = opened_table(data)
    blocks = []
    for separator, handle in table.index_entries():
        block = data[handle.offset : handle.offset + handle.size + TRAILER_SIZE]
        content = uncompressed_content(block, ChecksumType.CRC32C, "some.sst", handle.offset)
        blocks.append((separator, list(table.rows(handle)), content))
    return blocks


def properties_of(data: bytes) -> dict[str, bytes]:
    handle = opened_table(data).properties_handle
    properties = entries(data[handle.offset : handle.offset + handle.size], "some.sst", handle.offset)
    return {name.decode().removeprefix("rocksdb."): value for name, value in properties}


def index_of(data: bytes) -> bytes:
    """Return the uncompressed index of a file."""
    handle = opened_table(data)._footer.index_handle
    block = data[handle.offset : handle.offset + handle.size + TRAILER_SIZE]
    return uncompressed_content(block, ChecksumType.CRC32C, "some.sst", handle.offset)


def check_as_rocksdb(pairs: Pairs, batches: Sequence[Pairs], folder: Path) -> None:
    """Check that the written file has the same blocks and properties as a file of RocksDB with these rows."""
    (table,) = write(batches)
    our_file, rocksdb_file = table.file.getvalue(), sst_file(folder / "twin.sst", pairs)
    assert [row.key for _, rows, _ in blocks_of(our_file) for row in rows] == [key for key, _ in pairs]
    assert blocks_of(our_file) == blocks_of(rocksdb_file)
    assert (table.size, table.row_count) == (len(our_file), len(pairs))
    assert (table.smallest_key, table.largest_key) == (pairs[0][0], pairs[-1][0])
    our_properties, rocksdb_properties = properties_of(our_file), properties_of(rocksdb_file)
    assert set(our_properties) - set(rocksdb_properties) == {"file.creation.time"}
    assert set(rocksdb_properties) - set(our_properties) == LEFT_OUT_PROPERTIES
    differing = {
        name
        for name in rocksdb_properties
        if name in our_properties and our_properties[name] != rocksdb_properties[name]
    }
    assert differing <= PLACE_PROPERTIES | TIME_PROPERTIES | SIZE_PROPERTIES
    assert opened_table(our_file).properties.index_size == len(index_of(our_file)) + TRAILER_SIZE
    assert len(our_file) < 1.1 * len(rocksdb_file) + 1000


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(row_pairs(), st.integers(1, 100))
def test_blocks_of_random_rows_equal_those_of_rocksdb(tmp_path: Path, pairs: Pairs, batch_size: int) -> None:
    batches = [pairs[i : i + batch_size] for i in range(0, len(pairs), batch_size)]
    check_as_rocksdb(pairs, batches, tmp_path)


@pytest.mark.parametrize("value_size", [0, 3, 1000, 100_000])
def test_blocks_of_many_rows_equal_those_of_rocksdb(value_size: int, tmp_path: Path) -> None:
    rng = random.Random(value_size)
    count = min(12_000, 4_000_000 // (value_size + 20))
    pairs = [(b"\1\2" + (i * 3).to_bytes(8, "big"), rng.randbytes(value_size)) for i in range(count)]
    check_as_rocksdb(pairs, [pairs], tmp_path)


def test_files_are_cut_at_the_target_size_and_described_correctly() -> None:
    pairs = random_rows(3000)
    tables = write([pairs[:1000], [], pairs[1000:1001], pairs[1001:]], table_bytes=50_000)
    assert [table.number for table in tables] == list(range(7))
    pairs_read: Pairs = []
    for table in tables:
        data = table.file.getvalue()
        sst_table = opened_table(data)
        rows = [(row.key, row.value) for _, block in sst_table.index_entries() for row in sst_table.rows(block)]
        assert (len(data), len(rows)) == (table.size, table.row_count)
        assert read_footer(data[-FOOTER_SIZE:], len(data), "", 0).checksum_type == ChecksumType.CRC32C
        assert sst_table.properties.global_sequence == 0
        assert (rows[0][0], rows[-1][0]) == (table.smallest_key, table.largest_key)
        pairs_read += rows
    assert pairs_read == pairs
    sizes = [
        sum(len(key) + len(value) for key, value in pairs if table.smallest_key <= key <= table.largest_key)
        for table in tables
    ]
    assert all(50_000 <= size < 50_300 for size in sizes[:-1])


def test_no_empty_file_follows_a_file_that_the_last_row_fills() -> None:
    tables = write([[(b"\1", b"12345678")], [(b"\2", b"12345678")]], table_bytes=9)
    assert [(table.smallest_key, table.largest_key) for table in tables] == [(b"\1", b"\1"), (b"\2", b"\2")]


def test_no_rows_give_no_file() -> None:
    assert write([[], []]) == []


def test_bytes_of_a_file_are_independent_of_batches() -> None:
    pairs = random_rows(500)
    in_one_batch, in_many_batches = (
        write(batches)[0].file.getvalue() for batches in ([pairs], [[pair] for pair in pairs])
    )
    with_other_name = write([pairs], name="elsewhere")[0].file.getvalue()
    assert in_one_batch == in_many_batches
    assert len(in_one_batch) == len(with_other_name)
    assert in_one_batch != with_other_name, "a block cache would confuse the blocks of two files"


def test_writer_buffers_little_unless_a_row_is_large() -> None:
    buffer_sizes: list[int] = []

    class SizeRecorder:
        def write(self, data: memoryview) -> None:
            buffer_sizes.append(len(data))

    pairs = [(i.to_bytes(4, "big"), random.Random(i).randbytes(900_000 if i == 700 else 1000)) for i in range(2000)]
    writer = TableWriter(lambda _: SizeRecorder(), "place", creation_time=CREATION_TIME, path="", state="state")
    (table,) = [*writer.write(rows_in_buffer(pairs), np.arange(2000)), *writer.finish()]
    assert sum(buffer_sizes) == table.size
    assert max(buffer_sizes[:2]) < 300_000
    assert max(buffer_sizes) < 1_200_000


def test_libraries_of_both_flink_lines_open_a_database_of_new_files(
    libraries: dict[str, FlinksRocksdb], tmp_path: Path
) -> None:
    states = {"first": random_rows(2000), "empty": [], "second": random_rows(10)}
    tables_by_state = {state: write([pairs], name=state, table_bytes=40_000) for state, pairs in states.items()}
    manifest = new_manifest(
        {
            state: [NewTable(table.size, table.smallest_key, table.largest_key) for table in tables]
            for state, tables in tables_by_state.items()
        },
        CREATION_TIME,
    )
    for line, library in libraries.items():
        path = tmp_path / f"database-{line}"
        path.mkdir()
        for family in manifest.column_families[1:]:
            for file, table in zip(family.files, tables_by_state[family.name], strict=True):
                (path / file.name).write_bytes(table.file.getvalue())
        (path / "MANIFEST-000004").write_bytes(write_manifest(manifest, ""))
        (path / CURRENT).write_bytes(write_current("MANIFEST-000004"))
        assert checked_manifest(listed(path), read_file, list(states)) == manifest
        part = Part(path, KeyGroupRange(0, 127), tuple(states), {state: dict(pairs) for state, pairs in states.items()})
        check_our_reading(part, 128, tmp_path)
        check(library, part)
        check_further_writes(library, part, 128, random.Random(1))


def test_overlapping_files_are_refused() -> None:
    tables = [NewTable(10, b"\1", b"\3"), NewTable(10, b"\3", b"\4")]
    with pytest.raises(IntegrityError, match="new SST files overlap") as caught:
        new_manifest({"state": tables}, 1)
    assert caught.value.state == "state"


@pytest.mark.parametrize("table_bytes", [1, 1 << 26])
@pytest.mark.parametrize("batches", [[[b"\1", b"\2", b"\2"]], [[b"\1", b"\2"], [b"\2"]]])
def test_duplicate_key_is_refused(batches: list[list[bytes]], table_bytes: int) -> None:
    with pytest.raises(SnapshotError, match="two rows have the same key") as caught:
        write([[(key, b"value") for key in batch] for batch in batches], table_bytes=table_bytes)
    assert (caught.value.path, caught.value.state, caught.value.found) == ("s3://bucket/file", "state", "02")


@pytest.mark.parametrize("table_bytes", [1, 1 << 26])
@pytest.mark.parametrize("batches", [[[b"\1", b"\3", b"\2"]], [[b"\1", b"\3"], [b"\2"]]])
def test_row_out_of_order_is_refused(batches: list[list[bytes]], table_bytes: int) -> None:
    with pytest.raises(IntegrityError, match="out of order") as caught:
        write([[(key, b"value") for key in batch] for batch in batches], table_bytes=table_bytes)
    assert (caught.value.expected, caught.value.found) == ("a key after 03", "02")
