"""A temporary directory gets the files of a database from local files, S3, segments and handles, and is removed."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rescale.rocksdb.engine import directory
from rescale.rocksdb.engine.directory import fetched_database
from rescale.rocksdb.stored_files import StoredFile
from rescale.storage.contract import Pin
from rescale.storage.store import open_store
from rescale.text.errors import RequestError, RescaleError, SnapshotError, StoreError
from support.databases import Stored, databases, read_file, read_rows
from support.s3 import S3Server, unprotected_store


@pytest.fixture
def flink_database() -> Stored:
    return databases("2-rocksdb-changing")[1]


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def rows_of(flink_database: Stored, files: list[StoredFile], scratch: Path) -> Any:
    rows = read_rows(files, flink_database.states, flink_database.key_groups, flink_database.max_parallelism, scratch)
    assert list(scratch.iterdir()) == []
    return rows


def test_local_files_are_linked(flink_database: Stored, scratch: Path) -> None:
    with fetched_database(flink_database.files, scratch) as fetched:
        assert all((fetched.path / file.name).readlink() == Path(file.uri) for file in flink_database.files)
    assert list(scratch.iterdir()) == []


def test_reading_leaves_the_files_of_the_snapshot_unchanged(flink_database: Stored, scratch: Path) -> None:
    def file_states() -> list[Any]:
        folders = {Path(file.uri).parent for file in flink_database.files}
        states = ((path, path.stat(), path.read_bytes()) for folder in folders for path in sorted(folder.iterdir()))
        return [(path, s.st_mtime_ns, s.st_ctime_ns, s.st_nlink, data) for path, s, data in states]

    before = file_states()
    rows_of(flink_database, list(flink_database.files), scratch)
    assert file_states() == before


def test_segments_and_inline_bytes_of_handles_are_read(flink_database: Stored, scratch: Path, tmp_path: Path) -> None:
    """Segments as file merging stores them: several database files in one."""
    merged_file = tmp_path / "merged"
    files, content = [], b"something else"
    for i, file in enumerate(flink_database.files):
        data = read_file(file)
        if i % 3 == 0:
            files.append(StoredFile(file.name, "_metadata", len(data), data=data))
        else:
            files.append(StoredFile(file.name, str(merged_file), len(data), start=len(content)))
            content += data
    merged_file.write_bytes(content + b"more")
    assert rows_of(flink_database, files, scratch) == rows_of(flink_database, list(flink_database.files), scratch)


def test_changed_or_deleted_s3_object_is_refused(
    flink_database: Stored, scratch: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory, "_CHUNK_BYTES", 1000)
    s3.create_bucket("databases")
    store = unprotected_store("s3://databases")
    files = []
    for file in flink_database.files:
        uri = f"s3://databases/{file.name}"
        store.put(uri, read_file(file))
        files.append(replace(file, uri=uri, pin=store.stat(uri)))
    assert rows_of(flink_database, files, scratch) == rows_of(flink_database, list(flink_database.files), scratch)
    store.put(files[0].uri, b"x" * files[0].length)
    with pytest.raises(SnapshotError, match="changed"):
        rows_of(flink_database, files, scratch)
    store.delete([files[0].uri])
    with pytest.raises(SnapshotError, match="gone"):
        rows_of(flink_database, files, scratch)
    assert list(scratch.iterdir()) == []


def test_unusable_scratch_directory_is_named_and_a_missing_one_made(flink_database: Stored, tmp_path: Path) -> None:
    with fetched_database(flink_database.files, tmp_path / "not yet" / "scratch") as fetched:
        assert fetched.path.parent == tmp_path / "not yet" / "scratch"
    (tmp_path / "file").touch()
    with (
        pytest.raises(RequestError, match="the scratch directory cannot be used") as caught,
        fetched_database(flink_database.files, tmp_path / "file" / "scratch"),
    ):
        pass
    assert "SPARK_LOCAL_DIRS" in (caught.value.advice or "")
    assert str(tmp_path / "file") in (caught.value.path or "")


def test_changed_missing_or_short_local_file_is_refused(flink_database: Stored, scratch: Path) -> None:
    path = Path(flink_database.files[0].uri)
    pin = Pin(path.stat().st_size, mtime_ns=path.stat().st_mtime_ns + 1)
    with pytest.raises(SnapshotError, match="changed"):
        rows_of(flink_database, [replace(flink_database.files[0], pin=pin), *flink_database.files[1:]], scratch)
    with pytest.raises(SnapshotError, match="gone"):
        rows_of(
            flink_database, [replace(flink_database.files[0], uri=f"{path}.gone"), *flink_database.files[1:]], scratch
        )
    with pytest.raises(SnapshotError, match="ends too early"):
        rows_of(
            flink_database, [replace(flink_database.files[0], length=pin.size + 1), *flink_database.files[1:]], scratch
        )
    assert list(scratch.iterdir()) == []


def test_linked_file_that_changes_during_the_read_is_refused(tmp_path: Path, scratch: Path) -> None:
    path = tmp_path / "CURRENT"
    path.write_bytes(b"MANIFEST-000004\n")
    file = StoredFile("CURRENT", str(path), 16, pin=open_store(str(path)).stat(str(path)))
    block = fetched_database([file], scratch)
    fetched = block.__enter__()
    path.write_bytes(b"MANIFEST-000005\n")
    os.utime(path, ns=(0, 0))
    with pytest.raises(SnapshotError, match="changed"):
        block.__exit__(None, None, None)
    path.unlink()
    with pytest.raises(SnapshotError, match="cannot be read any more"):
        fetched.content(file)
    assert list(scratch.iterdir()) == []


def test_database_larger_than_the_free_disk_space_is_refused(
    flink_database: Stored, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check precedes all fetching. Linked files need no space."""
    free_bytes = 20_000
    monkeypatch.setattr(directory.shutil, "disk_usage", lambda _: SimpleNamespace(free=free_bytes))
    inline_files = [replace(file, data=read_file(file)) for file in flink_database.files]
    with pytest.raises(StoreError, match="the disk has no room for the database") as caught:
        rows_of(flink_database, inline_files, scratch)
    assert caught.value.path == str(scratch)
    assert (caught.value.expected or "").startswith(f"{sum(file.length for file in flink_database.files)} bytes")
    assert caught.value.found == f"{free_bytes} bytes are free"
    assert "SPARK_LOCAL_DIRS" in (caught.value.advice or "")
    assert rows_of(flink_database, list(flink_database.files), scratch)


@pytest.mark.parametrize("error_number", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk_while_fetching_is_reported(
    error_number: int, flink_database: Stored, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_full_disk(*_: Any) -> None:
        raise OSError(error_number, os.strerror(error_number))

    monkeypatch.setattr(directory, "_fetch", raise_full_disk)
    with pytest.raises(StoreError, match=os.strerror(error_number)) as caught:
        rows_of(flink_database, [replace(file, data=read_file(file)) for file in flink_database.files], scratch)
    assert "SPARK_LOCAL_DIRS" in (caught.value.advice or "")
    assert list(scratch.iterdir()) == []


def test_error_of_the_caller_passes_unchanged_and_scratch_is_emptied(flink_database: Stored, scratch: Path) -> None:
    with pytest.raises(OSError, match="mine"), fetched_database(flink_database.files, scratch):
        raise OSError("mine")
    with pytest.raises(RescaleError, match="mine"), fetched_database(flink_database.files, scratch):
        raise RescaleError("mine")
    assert list(scratch.iterdir()) == []
