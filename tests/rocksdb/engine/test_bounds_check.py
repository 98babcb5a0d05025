"""Bounds of files in RocksDB's MANIFEST: bounds that exclude a key are refused, because RocksDB would miss rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rescale.rocksdb.engine.bounds_check import check_bounds
from rescale.rocksdb.engine.directory import DatabaseDirectory
from rescale.rocksdb.engine.opened_directory import TABLE_OPTIONS
from rescale.rocksdb.manifest.edit_reader import InternalKey
from rescale.rocksdb.manifest.manifest import Manifest, read_manifest
from rescale.rocksdb.manifest.manifest_writer import write_manifest
from rescale.rocksdb.manifest.version_edit import LARGEST_SEQUENCE, RANGE_DELETION, VALUE, LiveFile
from rescale.text.errors import SnapshotError
from support.rocksdb_writer import MERGE, Writer, written
from support.sst_files import sst_file

FIRST_KEY, LAST_KEY = b"\1key-0000", b"\1key-0999"
ROW_COUNT = 1000
OPTIONS = f"{MERGE};{TABLE_OPTIONS}"


def fill(writer: Writer) -> None:
    for i in range(ROW_COUNT):
        writer.put("state", b"\1key-%04d" % i, b"value %d" % i)
    writer.flush()


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    with written(tmp_path / "db", ["state"], OPTIONS) as writer_with_rows:
        fill(writer_with_rows)
        yield writer_with_rows


def checkpoint(writer: Writer, path: Path) -> tuple[DatabaseDirectory, Manifest]:
    files = writer.checkpoint(path)
    (uri,) = (file.uri for file in files if file.name.startswith("MANIFEST-"))
    return DatabaseDirectory(path, tuple(files)), read_manifest(Path(uri).read_bytes(), uri)


def changed_manifest(manifest: Manifest, change: Callable[[LiveFile], LiveFile]) -> Manifest:
    families = (replace(family, files=tuple(map(change, family.files))) for family in manifest.column_families)
    return replace(manifest, column_families=tuple(families))


def move_begin(key: bytes, sequence: int, kind: int = VALUE) -> Callable[[LiveFile], LiveFile]:
    return lambda file: replace(file, smallest_key=InternalKey(key, sequence, kind))


def move_end(key: bytes, sequence: int, kind: int = VALUE) -> Callable[[LiveFile], LiveFile]:
    return lambda file: replace(file, largest_key=InternalKey(key, sequence, kind))


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file,
        move_begin(FIRST_KEY, LARGEST_SEQUENCE, RANGE_DELETION),
        move_begin(b"\1key", 1),
        move_end(LAST_KEY, 0),
        move_end(LAST_KEY + b"\0", LARGEST_SEQUENCE, RANGE_DELETION),
    ],
)
def test_bounds_equal_to_or_wider_than_the_rows_are_accepted(
    change: Callable[[LiveFile], LiveFile], writer: Writer, tmp_path: Path
) -> None:
    directory, manifest = checkpoint(writer, tmp_path / "checkpoint")
    check_bounds(directory, changed_manifest(manifest, change))


@pytest.mark.parametrize(
    ("change", "message", "expected", "actual"),
    [
        (move_begin(FIRST_KEY + b"\0", 1), "begins after its first row", (FIRST_KEY, 1), (FIRST_KEY + b"\0", 1)),
        (move_begin(FIRST_KEY, 0), "begins after its first row", (FIRST_KEY, 1), (FIRST_KEY, 0)),
        (
            move_end(LAST_KEY[:-1], ROW_COUNT),
            "ends before its last row",
            (LAST_KEY, ROW_COUNT),
            (LAST_KEY[:-1], ROW_COUNT),
        ),
        (move_end(FIRST_KEY, ROW_COUNT), "ends before its last row", (LAST_KEY, ROW_COUNT), (FIRST_KEY, ROW_COUNT)),
        (
            move_end(LAST_KEY, ROW_COUNT + 1),
            "ends before its last row",
            (LAST_KEY, ROW_COUNT),
            (LAST_KEY, ROW_COUNT + 1),
        ),
    ],
)
def test_bounds_narrower_than_the_rows_are_refused(
    change: Callable[[LiveFile], LiveFile],
    message: str,
    expected: tuple[bytes, int],
    actual: tuple[bytes, int],
    writer: Writer,
    tmp_path: Path,
) -> None:
    directory, manifest = checkpoint(writer, tmp_path / "checkpoint")
    (name,) = manifest.files
    with pytest.raises(SnapshotError, match=f"the key range of {name} in the MANIFEST {message}") as caught:
        check_bounds(directory, changed_manifest(manifest, change))
    descriptions = [f"{key.hex()} (sequence number {number}, type 1)" for key, number in (expected, actual)]
    assert [caught.value.expected, caught.value.found] == descriptions
    assert Path(caught.value.path or "").name.startswith("MANIFEST-")
    assert (caught.value.state, caught.value.advice) == ("state", "take another snapshot")


def test_exclusive_end_at_the_key_of_the_last_row_is_refused(writer: Writer, tmp_path: Path) -> None:
    """The file comes from a compaction, which has set the sequence numbers of its rows to 0."""
    writer.compact("state")
    directory, manifest = checkpoint(writer, tmp_path / "checkpoint")
    (file,) = manifest.files.values()
    assert file.level
    check_bounds(directory, manifest)
    with pytest.raises(SnapshotError, match="ends before its last row"):
        check_bounds(
            directory, changed_manifest(manifest, move_end(file.largest_user_key, LARGEST_SEQUENCE, RANGE_DELETION))
        )


@pytest.mark.parametrize(
    ("change", "lost_key"),
    [(move_begin(FIRST_KEY + b"\0", 1), FIRST_KEY), (move_end(LAST_KEY[:-1], ROW_COUNT), LAST_KEY)],
)
def test_rocksdb_lookup_misses_a_row_outside_the_bounds_that_iteration_shows(
    change: Callable[[LiveFile], LiveFile], lost_key: bytes, writer: Writer, tmp_path: Path
) -> None:
    """Iteration ignores bounds, and lookups use them.

    The database is compacted, because lookups ignore bounds, too, if there are only a few files in level 0.
    """
    writer.compact("state")
    path = tmp_path / "checkpoint"
    _, manifest = checkpoint(writer, path)
    (manifest_file,) = path.glob("MANIFEST-*")
    manifest_file.write_bytes(write_manifest(changed_manifest(manifest, change), manifest_file.name))
    with written(path, ["state"], OPTIONS) as spoilt_database:
        assert spoilt_database.rows("state") == writer.model["state"]
        assert spoilt_database.value("state", lost_key) is None
        assert spoilt_database.value("state", b"\1key-0500") == b"value 500"


def test_bounds_that_rocksdb_writes_are_accepted(writer: Writer, tmp_path: Path) -> None:
    """The files are in level 0 and below, end with a row or a range tombstone, and have rows or none."""
    bounds = set()

    def check(step: str) -> None:
        directory, manifest = checkpoint(writer, tmp_path / step)
        bounds.update(file.is_largest_exclusive for file in manifest.files.values())
        check_bounds(directory, manifest)

    writer.delete_range("state", b"\1key-0990", b"\2")
    writer.flush()
    check("a range alone")
    writer.delete_range("state", b"\0", b"\1key-0010")
    writer.put("state", b"\1key-0500", b"new")
    writer.delete("state", b"\1key-0600")
    writer.flush()
    check("rows and a range")
    writer.compact("state")
    check("compacted")
    assert bounds == {True, False}


def test_bounds_of_an_ingested_file_have_the_sequence_number_of_the_file(writer: Writer, tmp_path: Path) -> None:
    """The MANIFEST gives all its rows one sequence number, because older rows have the same keys."""
    sst_file(tmp_path / "new.sst", [(FIRST_KEY, b"new"), (LAST_KEY, b"new")])
    writer.ingest("state", tmp_path / "new.sst")
    directory, manifest = checkpoint(writer, tmp_path / "checkpoint")
    assert [file.largest_key for file in manifest.files.values()] == [
        InternalKey(LAST_KEY, ROW_COUNT, VALUE),
        InternalKey(LAST_KEY, ROW_COUNT + 1, VALUE),
    ]
    check_bounds(directory, manifest)
    with pytest.raises(SnapshotError, match="ends before its last row"):
        check_bounds(directory, changed_manifest(manifest, move_end(LAST_KEY, LARGEST_SEQUENCE, RANGE_DELETION)))
