"""Errors of damaged and foreign databases name the file and RocksDB's message."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rescale.flink.key_groups import KeyGroupRange
from rescale.rocksdb.assembly.assembled_database import SourceDatabase
from rescale.rocksdb.assembly.compaction import StoredDatabase, compacted_database
from rescale.rocksdb.consistency import checked_manifest
from rescale.rocksdb.engine.directory import DatabaseDirectory, fetched_database
from rescale.rocksdb.engine.guarded_database import guarded_database
from rescale.rocksdb.engine.open_database import rocksdb_message_error
from rescale.rocksdb.manifest.log_framing import read_log
from rescale.rocksdb.manifest.manifest import read_manifest
from rescale.rocksdb.manifest.manifest_writer import write_manifest
from rescale.rocksdb.manifest.version_edit import LiveFile
from rescale.rocksdb.sst.block_writer import write_handle
from rescale.rocksdb.sst.footer import FOOTER_SIZE, read_footer
from rescale.rocksdb.sst.table_blocks import BlockHandle
from rescale.rocksdb.stored_files import StoredFile
from rescale.text.errors import SnapshotError, StoreError, UnsupportedError
from support.databases import Rows, Stored, databases, read_file, read_rows
from support.manifests import log, text
from support.rocksdb_writer import written
from support.slow import slow
from support.sst_files import with_index

ALL_KEY_GROUPS = KeyGroupRange(0, 127)


def rows_of(database: Stored, files: list[StoredFile], scratch: Path) -> Rows:
    return read_rows(files, database.states, database.key_groups, database.max_parallelism, scratch)


def files_with_damage(database: Stored, name: str, data: bytes) -> list[StoredFile]:
    return [
        replace(file, uri=f"s3://bucket/{name}", data=data) if file.name == name else file for file in database.files
    ]


@pytest.mark.parametrize("step", [slow(17), 101])
@pytest.mark.parametrize("name", ["1.20-rocksdb-changing", "2-rocksdb-changing"])
def test_damaged_sst_file_gives_the_same_rows_or_is_refused(name: str, step: int, tmp_path: Path) -> None:
    database = databases(name)[0]
    rows = rows_of(database, list(database.files), tmp_path)
    table = next(file for file in database.files if file.name.endswith(".sst"))
    data = read_file(table)
    errors = []
    for at in range(0, len(data), step):
        damaged_data = data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :]
        try:
            assert rows_of(database, files_with_damage(database, table.name, damaged_data), tmp_path) == rows
        except SnapshotError as error:
            errors.append(error)
    assert len(errors) > 10
    refusals = [error for error in errors if error.what == "the database is damaged"]
    assert len(refusals) >= len(errors) - 4, "only damage to the footer has other errors"
    for error in refusals:
        assert "RocksDB says: Corruption" in (error.found or ""), error
        assert table.name in (error.found or ""), error
    for error in errors:
        assert str(tmp_path) not in str(error)
    assert {error.path for error in errors} == {f"s3://bucket/{table.name}"}


@pytest.mark.parametrize("block_size", [1 << 20, 1 << 40, 1 << 47, 1 << 62, (1 << 63) - 1, (1 << 64) - 6])
@pytest.mark.parametrize("handle_name", ["metaindex", "index"])
def test_damaged_block_size_in_a_footer_is_refused_before_rocksdb_reads(
    handle_name: str, block_size: int, tmp_path: Path
) -> None:
    """RocksDB would allocate this many bytes, and an uncaught exception would end its process."""
    database = databases("1.20-rocksdb-changing")[0]
    table = next(file for file in database.files if file.name.endswith(".sst"))
    data = read_file(table)
    footer = read_footer(data[-FOOTER_SIZE:], len(data), "", 0)
    handles = {"metaindex": footer.metaindex_handle, "index": footer.index_handle}
    handles[handle_name] = handles[handle_name]._replace(size=block_size)
    handle_bytes = b"".join(map(write_handle, handles.values())).ljust(40, b"\0")
    damaged_files = files_with_damage(database, table.name, data[:-52] + handle_bytes + data[-12:])
    with pytest.raises(SnapshotError, match="outside of its file") as caught:
        rows_of(database, damaged_files, tmp_path)
    assert caught.value.path == f"s3://bucket/{table.name}"
    manifest = checked_manifest(damaged_files, read_file, database.states)
    source = StoredDatabase(
        SourceDatabase("", manifest, database.key_groups), {file.name: file for file in damaged_files}
    )
    with (
        pytest.raises(SnapshotError, match="outside of its file"),
        compacted_database([source], KeyGroupRange(5, 9), 128, tmp_path, "place"),
    ):
        pass


@pytest.mark.parametrize("block_size", [1 << 40, (1 << 63) - 1, (1 << 64) - 6])
def test_forged_block_size_in_an_index_is_named_and_the_next_read_works(block_size: int, tmp_path: Path) -> None:
    """The checksum is right, so RocksDB crashes in the child; only then do we look for the file."""
    database = databases("1.20-rocksdb-changing")[0]
    table = next(file for file in database.files if file.name.endswith(".sst"))
    damaged_files = files_with_damage(database, table.name, with_index(read_file(table), BlockHandle(0, block_size)))
    with pytest.raises(SnapshotError, match="outside of its file") as caught:
        rows_of(database, damaged_files, tmp_path)
    assert caught.value.path == f"s3://bucket/{table.name}"
    assert rows_of(database, list(database.files), tmp_path), "the next read fails, too"


def test_damaged_block_is_refused_only_if_its_rows_are_read(tmp_path: Path) -> None:
    """Damage must not pass for the end of the rows."""
    with written(tmp_path / "db", ["state"]) as writer:
        for i in range(2000):
            writer.put("state", bytes([i % 128]) + i.to_bytes(4, "big"), i.to_bytes(100, "big"))
        files = writer.checkpoint(tmp_path / "checkpoint")
    table = next(tmp_path.glob("checkpoint/*.sst"))
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 1
    table.write_bytes(data)
    assert read_rows(files, ["state"], KeyGroupRange(0, 3), 128, tmp_path)
    with pytest.raises(SnapshotError, match="damaged") as caught:
        read_rows(files, ["state"], ALL_KEY_GROUPS, 128, tmp_path)
    assert (caught.value.path, caught.value.state) == (str(table), "state")
    assert "block checksum mismatch" in (caught.value.found or "")


@pytest.mark.parametrize("name", ["1.20-rocksdb-changing", "2-rocksdb-changing"])
def test_file_whose_lower_bound_is_after_its_first_row_is_refused(name: str, tmp_path: Path) -> None:
    """An iterator shows the row, but a lookup by the job does not find it."""
    database = databases(name)[0]
    (manifest_file,) = (file for file in database.files if file.name.startswith("MANIFEST-"))
    manifest = read_manifest(read_file(manifest_file), manifest_file.uri)

    def raise_smallest_key(file: LiveFile) -> LiveFile:
        key = file.smallest_key
        return replace(file, smallest_key=key._replace(user_key=key.user_key + b"\0"))

    families = tuple(
        replace(family, files=tuple(map(raise_smallest_key, family.files))) for family in manifest.column_families
    )
    data = write_manifest(replace(manifest, column_families=families), manifest_file.name)
    assert rows_of(
        database,
        files_with_damage(database, manifest_file.name, write_manifest(manifest, manifest_file.name)),
        tmp_path,
    )
    with pytest.raises(SnapshotError, match="begins after its first row, so a job would not find this row") as caught:
        rows_of(database, files_with_damage(database, manifest_file.name, data), tmp_path)
    assert caught.value.path == f"s3://bucket/{manifest_file.name}"
    assert caught.value.state in database.states


def test_file_deleted_during_the_read_is_named(tmp_path: Path) -> None:
    with written(tmp_path / "db", ["state"]) as writer:
        writer.put("state", b"\1key", b"value")
        files = writer.checkpoint(tmp_path / "checkpoint")
    table = next(tmp_path.glob("checkpoint/*.sst"))

    def read() -> None:
        with fetched_database(files, tmp_path) as directory:
            table.unlink()
            with guarded_database(directory, ["state"]):
                pass

    with pytest.raises(SnapshotError, match="damaged") as caught:
        read()
    assert "No such file" in (caught.value.found or "")
    assert caught.value.path == str(table)


def test_list_state_of_another_merge_operator_is_refused(tmp_path: Path) -> None:
    """SST files carry the name of the merge operator; RocksDB does not enforce it."""
    with written(tmp_path / "db", ["state"], "merge_operator={id=StringAppendTESTOperator;delimiter=|}") as writer:
        writer.add("state", b"\1key", b"one")
        files = writer.checkpoint(tmp_path / "checkpoint")
    with pytest.raises(UnsupportedError, match="merge operator other than Flink's"):
        read_rows(files, ["state"], ALL_KEY_GROUPS, 128, tmp_path)


def test_state_name_with_a_zero_byte_is_refused(tmp_path: Path) -> None:
    """For the C interface of RocksDB the name ends at the zero byte: it could open another state."""
    with written(tmp_path / "db", ["state"]) as writer:
        files = writer.checkpoint(tmp_path / "checkpoint")
    (manifest,) = tmp_path.glob("checkpoint/MANIFEST-*")
    payloads = [record.payload for record in read_log(manifest.read_bytes(), "")]
    state_field = text(201, b"state")
    data = log(*(payload.replace(state_field, text(201, b"stat\0")) for payload in payloads))
    files = [replace(file, data=data) if file.name == manifest.name else file for file in files]
    with pytest.raises(UnsupportedError, match="RocksDB cannot open or read") as caught:
        read_rows(files, ["stat\0"], ALL_KEY_GROUPS, 128, tmp_path)
    assert "a zero character: 'stat\\x00'" in (caught.value.found or "")


@pytest.mark.parametrize(
    ("message", "error_type", "name"),
    [
        ("IO error: No space left on device: While writing: {}/000010.sst", StoreError, "000010.sst"),
        ("IO error: No such file or directory: While open: {}/000010.sst", SnapshotError, "000010.sst"),
        ("Corruption: block checksum mismatch in {}/000010.sst offset 0", SnapshotError, "000010.sst"),
        ("Corruption: something", SnapshotError, "CURRENT"),
        ("Not implemented: something in {}/MANIFEST-000004", UnsupportedError, "MANIFEST-000004"),
        ("Invalid argument: something in {}/999999.sst", UnsupportedError, "CURRENT"),
    ],
)
def test_messages_of_rocksdb_become_errors_that_name_the_file(
    message: str, error_type: type[Exception], name: str, tmp_path: Path
) -> None:
    names = ("CURRENT", "MANIFEST-000004", "000010.sst")
    directory = DatabaseDirectory(tmp_path, tuple(StoredFile(name, f"s3://bucket/{name}", 1) for name in names))
    error = rocksdb_message_error(message.format(tmp_path), directory)
    assert type(error) is error_type
    assert error.path == f"s3://bucket/{name}"
    assert str(tmp_path) not in str(error)
    assert message.partition(":")[0] in (error.found or "")
