"""Written MANIFESTs are read back as the values that they were written from."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.rocksdb.manifest.edit_reader import InternalKey
from rescale.rocksdb.manifest.log_framing import BLOCK_SIZE, read_log, write_log
from rescale.rocksdb.manifest.manifest import ColumnFamily, Manifest, read_current, read_manifest
from rescale.rocksdb.manifest.manifest_writer import write_current, write_manifest
from rescale.rocksdb.manifest.version_edit import FileTag, LiveFile
from rescale.text.errors import SnapshotError
from support.databases import databases, read_file
from support.manifests import log
from support.snapshots import FIXTURES

KEYS = st.builds(InternalKey, st.binary(max_size=40), st.integers(0, (1 << 56) - 1), st.sampled_from([0, 1, 2, 15]))
FIELDS = st.lists(
    st.tuples(
        st.sampled_from([FileTag.CREATION_TIME, FileTag.EPOCH_NUMBER]), st.integers(0, 127).map(lambda n: bytes([n]))
    )
)


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    names = [
        "default",
        *draw(st.lists(st.text(max_size=20).filter(lambda name: name != "default"), unique=True, max_size=4)),
    ]
    families, file_number = [], 0
    for i, name in enumerate(names):
        files = []
        for _ in range(draw(st.integers(0, 6))):
            file_number += draw(st.integers(1, 1000))
            smallest, largest = sorted(draw(st.tuples(KEYS, KEYS)))
            level, size = draw(st.integers(0, 8)), draw(st.integers(0, 1 << 40))
            sequences = draw(st.integers(0, 1 << 40)), draw(st.integers(0, 1 << 40))
            files.append(LiveFile(level, file_number, size, smallest, largest, *sequences, tuple(draw(FIELDS))))
        files.sort(key=lambda file: (file.level, file.number))
        families.append(ColumnFamily(i, name, tuple(files)))
    return Manifest(tuple(families), 1 << 40, file_number + draw(st.integers(1, 10)))


@given(manifests())
def test_random_manifest_is_read_back(manifest: Manifest) -> None:
    assert read_manifest(write_manifest(manifest, "MANIFEST-000004"), "") == manifest


def test_manifest_of_flink_is_written_without_its_history() -> None:
    file_count = 0
    for folder in sorted(FIXTURES.glob("*rocksdb*")):
        for database in databases(folder.name):
            (file,) = (file for file in database.files if file.name.startswith("MANIFEST"))
            manifest = read_manifest(read_file(file), file.uri)
            data = write_manifest(manifest, file.uri)
            assert read_manifest(data, file.uri) == manifest
            assert len(list(read_log(data, ""))) == 2 + 2 * len(manifest.column_families)
            file_count += len(manifest.files)
    assert file_count > 100


def test_manifest_of_many_files_spans_several_blocks() -> None:
    keys = InternalKey(b"\1" * 50, 5, 1), InternalKey(b"\2" * 50, 4, 1)
    files = tuple(LiveFile(0, 10 + i, 1000, *keys, 4, 5) for i in range(2000))
    manifest = Manifest((ColumnFamily(0, "default", ()), ColumnFamily(1, "state", files)), 5, 3000)
    data = write_manifest(manifest, "")
    assert len(data) > 5 * BLOCK_SIZE
    assert read_manifest(data, "") == manifest


def test_manifest_with_a_file_number_above_the_next_one_is_not_written() -> None:
    manifest = Manifest((ColumnFamily(0, "default", ()), ColumnFamily(1, "state", ())), 5, 10)
    file = LiveFile(0, 10, 1, InternalKey(b"\1", 1, 1), InternalKey(b"\2", 1, 1), 1, 1)
    families = (manifest.column_families[0], replace(manifest.column_families[1], files=(file,)))
    with pytest.raises(SnapshotError, match="not below the next file number"):
        write_manifest(replace(manifest, column_families=families), "MANIFEST-000004")


@given(st.lists(st.integers(0, 80_000).map(lambda size: bytes([size % 251]) * size), max_size=6))
def test_records_are_framed_as_rocksdb_does(records: list[bytes]) -> None:
    data = write_log(records)
    assert data == log(*records)
    assert [record.payload for record in read_log(data, "")] == records


@pytest.mark.parametrize("bytes_left", range(9))
def test_record_that_ends_near_the_end_of_a_block_is_read_back(bytes_left: int) -> None:
    records = [b"a" * (BLOCK_SIZE - 7 - bytes_left), b"next", b"", b"b" * 100_000, b"end"]
    assert [record.payload for record in read_log(write_log(records), "")] == records


def test_current_is_read_back() -> None:
    assert read_current(write_current("MANIFEST-000004"), "") == "MANIFEST-000004"
