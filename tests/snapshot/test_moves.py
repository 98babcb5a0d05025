"""Snapshots that were copied to another place, whose handles still name the old one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from rescale.flink.metadata.handles import FileStream, RelativeFileStream
from rescale.snapshot.findings import findings
from rescale.snapshot.moves import Move, parse_moves
from rescale.snapshot.reading.opening import open_candidate, open_snapshot
from rescale.text.errors import RequestError, RescaleError, SnapshotError, UnsupportedError
from support import snapshots
from support.edited import edit_operators, relocated, with_streams
from support.s3 import S3Server, put_files

MOVED_FIXTURES = [f"{line}-{name}" for line in ("1.20", "2") for name in ("rocksdb-incremental", "file-merging")]
SAVEPOINT_FIXTURE = "2-heap-native"


def checkpoint_below(folder: Path) -> Path:
    return next(folder.rglob("_metadata")).parent


def moved_checkpoint(name: str, folder: Path) -> tuple[Path, Path]:
    """(old, new) directory of a checkpoint; the old one is gone, and its handles name it."""
    old_directory = relocated(name, folder / "old")
    shutil.move(folder / "old", folder / "new")
    return old_directory, checkpoint_below(folder / "new")


@pytest.mark.parametrize("name", MOVED_FIXTURES)
def test_copied_checkpoint_is_read_from_its_new_place(name: str, tmp_path: Path) -> None:
    original = open_snapshot(str(relocated(name, tmp_path / "kept")))
    _, new_directory = moved_checkpoint(name, tmp_path)
    snapshot = open_snapshot(str(new_directory))
    assert not snapshot.missing_files
    assert snapshot.moved_paths
    assert all(uri.startswith(str(tmp_path / "new")) for uri, _ in snapshot.files)
    assert [pin.size for _, pin in snapshot.files[1:]] == [pin.size for _, pin in original.files[1:]]
    assert snapshot.bytes == original.bytes
    assert any(f"below {new_directory.parent}" in finding for finding in findings(snapshot))


def test_planned_source_is_read_without_a_search_for_moves(tmp_path: Path) -> None:
    _, new_directory = moved_checkpoint(MOVED_FIXTURES[0], tmp_path)
    snapshot = open_snapshot(str(new_directory))
    reopened = open_candidate(snapshot.metadata_uri, snapshot.directory, moves=snapshot.moves)
    assert reopened.files == snapshot.files
    with pytest.raises(SnapshotError):
        open_candidate(snapshot.metadata_uri, snapshot.directory)


def test_copied_checkpoint_is_refused_while_the_old_place_has_files(tmp_path: Path) -> None:
    old_directory = relocated(MOVED_FIXTURES[0], tmp_path / "old")
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    new_directory = checkpoint_below(tmp_path / "new")
    with pytest.raises(SnapshotError) as caught:
        open_snapshot(str(new_directory))
    assert "--moved" in str(caught.value.advice)
    allowed_snapshot = open_snapshot(str(new_directory), [str(old_directory.parent)])
    assert not allowed_snapshot.moves
    moved_snapshot = open_snapshot(
        str(new_directory), moves=[Move(str(old_directory.parent), str(new_directory.parent))]
    )
    assert all(uri.startswith(str(tmp_path / "new")) for uri, _ in moved_snapshot.files)


def test_file_of_another_size_is_not_taken_for_a_moved_one(tmp_path: Path) -> None:
    _, new_directory = moved_checkpoint(MOVED_FIXTURES[0], tmp_path)
    for path in (new_directory.parent / "shared").iterdir():
        path.write_bytes(path.read_bytes() + b"x")
    for path in new_directory.iterdir():
        if path.name != "_metadata":
            path.unlink()
    with pytest.raises(RescaleError):
        open_snapshot(str(new_directory))


def test_two_possible_places_of_moved_files_are_refused(tmp_path: Path) -> None:
    _, new_directory = moved_checkpoint(MOVED_FIXTURES[0], tmp_path)
    for path in (new_directory.parent / "shared").iterdir():
        shutil.copy(path, new_directory / path.name)
    with pytest.raises(SnapshotError) as caught:
        open_snapshot(str(new_directory))
    assert str(new_directory) in str(caught.value.found)
    assert str(new_directory.parent / "shared") in str(caught.value.found)


def test_checkpoint_copied_to_another_bucket_is_read(tmp_path: Path, s3: S3Server) -> None:
    _, new_directory = moved_checkpoint(MOVED_FIXTURES[0], tmp_path)
    s3.create_bucket("replica")
    replica = "s3://replica/job"
    put_files(new_directory.parent, replica)
    snapshot = open_snapshot(f"{replica}/{new_directory.name}")
    assert not snapshot.missing_files
    assert {move.new for move in snapshot.moves} == {replica}


@pytest.mark.parametrize(
    "scheme", ["hdfs://namenode:8020", "abfss://c@account", "gs://bucket", "oss://b", "viewfs://c"]
)
def test_copied_savepoint_is_read_from_its_new_place(scheme: str, tmp_path: Path) -> None:
    folder, root = tmp_path / "copy", f"{scheme}/savepoints/savepoint-1"
    shutil.copytree(snapshots.directory(SAVEPOINT_FIXTURE), folder)

    def with_absolute_path(stream: Any) -> Any:
        is_relative = isinstance(stream, RelativeFileStream)
        return FileStream(f"{root}/{stream.path}", stream.size) if is_relative else stream

    edit_operators(folder, lambda operator: with_streams(operator, with_absolute_path))
    snapshot = open_snapshot(str(folder))
    assert snapshot.moves == (Move(root, str(folder)),)
    assert not snapshot.missing_files
    (tmp_path / "data").mkdir()
    for path in folder.iterdir():
        if path.name != "_metadata":
            path.rename(tmp_path / "data" / path.name)
    with pytest.raises(UnsupportedError) as caught:
        open_snapshot(str(folder))
    assert "--moved" in str(caught.value.advice)
    moved_snapshot = open_snapshot(str(folder), moves=parse_moves([f"{root}/={tmp_path}/data"]))
    assert moved_snapshot.bytes == snapshot.bytes


def test_moves_are_read_from_text() -> None:
    assert parse_moves(["hdfs://n/a/=s3a://b/c/"]) == (Move("hdfs://n/a", "s3://b/c"),)
    assert parse_moves(["/dt=1/a=/b"]) == (Move("/dt=1/a", "/b"),)


@pytest.mark.parametrize("arguments", [["/a"], ["=/b"], ["/a="], ["/a=/b=/c"], ["/a=/b", "/a/=/c"], ["/a=hdfs://n/b"]])
def test_malformed_move_is_refused(arguments: list[str]) -> None:
    with pytest.raises(RequestError):
        parse_moves(arguments)
