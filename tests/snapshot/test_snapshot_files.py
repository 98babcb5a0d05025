"""Reading extents of a snapshot's files."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from rescale.snapshot.locate import Extent
from rescale.snapshot.snapshot_files import LARGEST_READ_BYTES, SnapshotFiles
from rescale.storage.files.local_store import LocalStore
from rescale.storage.store import open_store
from rescale.text.errors import SnapshotError

DATA = bytes(range(100))


@pytest.fixture
def files(tmp_path: Path) -> SnapshotFiles:
    """Return a file with `DATA`, and `_metadata`, which is in memory and not in the store."""
    path = tmp_path / "state"
    path.write_bytes(DATA)
    return SnapshotFiles(
        ((str(tmp_path / "_metadata"), None), (str(path), open_store(str(path)).stat(str(path)))), DATA
    )


def test_extent_is_read_whole_in_part_or_in_chunks(files: SnapshotFiles) -> None:
    extent = Extent(1, 10, 25)
    assert files.read(extent) == DATA[10:35]
    assert files.beginning(extent, 4) == DATA[10:14]
    assert files.beginning(extent, 400) == DATA[10:35]
    assert list(files.chunks(extent, 10)) == [DATA[10:20], DATA[20:30], DATA[30:35]]


def test_metadata_in_memory_is_not_read_again_and_not_sent_to_tasks(files: SnapshotFiles) -> None:
    assert files.read(Extent(0, 5, 5)) == DATA[5:10]
    sent_files = pickle.loads(pickle.dumps(files))
    assert sent_files == files
    assert sent_files.metadata_bytes is None
    with pytest.raises(SnapshotError) as caught:
        sent_files.read(Extent(0, 5, 5))
    assert caught.value.path == files.pinned_files[0][0]


def test_changed_file_is_refused_unless_its_version_is_ignored(files: SnapshotFiles) -> None:
    path = files.uri(Extent(1, 0, 0))
    Path(path).write_bytes(DATA[::-1])
    for read in (lambda: files.read(Extent(1, 0, 1)), lambda: list(files.chunks(Extent(1, 0, 1)))):
        with pytest.raises(SnapshotError) as caught:
            read()
        assert caught.value.path == path
    assert files.without_pins().read(Extent(1, 0, 1)) == DATA[-1:]


def test_extent_above_the_read_limit_is_refused(files: SnapshotFiles) -> None:
    with pytest.raises(SnapshotError, match="too long for one read") as caught:
        files.read(Extent(1, 0, LARGEST_READ_BYTES + 1))
    assert caught.value.path == files.uri(Extent(1, 0, 0))
    with pytest.raises(SnapshotError, match="too long for one read"):
        files.read(Extent(1, 0, 5), limit=4)


def test_many_extents_are_returned_in_order_and_neighbours_read_together(
    files: SnapshotFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Adjacent extents are read together; bytes between other extents are not read."""
    reads: list[tuple[int, int]] = []
    read = SnapshotFiles.read

    def read_and_note(self: SnapshotFiles, extent: Extent, limit: int = LARGEST_READ_BYTES) -> bytes:
        reads.append((extent.start, extent.length))
        return read(self, extent, limit)

    monkeypatch.setattr(SnapshotFiles, "read", read_and_note)
    extents = [Extent(1, 40, 5), Extent(1, 10, 5), Extent(1, 15, 0), Extent(1, 15, 5), Extent(1, 40, 5)]
    assert files.read_each(extents) == [DATA[40:45], DATA[10:15], b"", DATA[15:20], DATA[40:45]]
    assert reads == [(10, 10), (40, 5), (40, 5)]
    assert files.read_each([]) == []


@pytest.mark.parametrize("length", [7, 90, 489])
def test_chunks_have_the_size_asked_for_whatever_the_store_reads(
    length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state"
    path.write_bytes(bytes(range(250)) * 2)
    files = SnapshotFiles((("", None), (str(path), None)))
    monkeypatch.setattr(
        LocalStore, "chunk_size", lambda _, length, bytes_at_once=None: 20 if length > 100 else bytes_at_once or 50
    )
    content = path.read_bytes()[7 : 7 + length]
    for bytes_at_once, largest_chunk in ((8, min(8, length)), (None, min(20 if length > 100 else 50, length))):
        chunks = list(files.chunks(Extent(1, 7, length), bytes_at_once))
        assert b"".join(chunks) == content
        assert max(map(len, chunks)) == largest_chunk
