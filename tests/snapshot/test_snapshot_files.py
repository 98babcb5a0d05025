"""The bytes of files, in chunks."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.snapshot.locate import Extent
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.storage.files.local_store import LocalStore


@pytest.mark.parametrize("length", [7, 90, 489])
def test_chunks_have_the_size_asked_for_whatever_the_store_reads(
    length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "state"
    file.write_bytes(bytes(range(250)) * 2)
    files = SnapshotFiles((("", None), (str(file), None)))
    monkeypatch.setattr(LocalStore, "read_size", lambda _, length, at_once=None: 20 if length > 100 else at_once or 50)
    content = file.read_bytes()[7 : 7 + length]
    for at_once, most in ((8, min(8, length)), (None, min(20 if length > 100 else 50, length))):
        chunks = list(files.chunks(Extent(1, 7, length), at_once))
        assert b"".join(chunks) == content
        assert max(map(len, chunks)) == most
