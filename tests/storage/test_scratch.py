"""Directories that go with the process that made them."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest

from rescale.errors import RequestError
from rescale.storage.scratch import ScratchKind, scratch_directory, scratch_folder

HOLDER = """
import sys
from pathlib import Path
from rescale.errors import RequestError
from rescale.storage.scratch import ScratchKind, scratch_directory, scratch_folder
with scratch_folder(Path(sys.argv[1]), ScratchKind.DATABASE) as folder:
    (folder / "CURRENT").write_bytes(b"x")
    print(folder, flush=True)
    sys.stdin.read()
"""


def hold(place: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that has a directory below `place` until it ends."""
    words = [sys.executable, "-c", HOLDER, str(place)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_it_goes_when_the_block_ends(tmp_path: Path) -> None:
    with scratch_folder(tmp_path, ScratchKind.DATABASE) as folder:
        assert list(tmp_path.iterdir()) == [folder]
        (folder / "file").write_bytes(b"x")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="mine"), scratch_folder(tmp_path, ScratchKind.DATABASE):
        raise ValueError("mine")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("home", ["blockmgr-1", "blockmgr-2"])
def test_what_a_killed_process_left_goes_with_the_next_one(home: str, tmp_path: Path) -> None:
    """Also where it was of another application, which had a scratch directory of its own."""
    places = [tmp_path / "blockmgr-1", tmp_path / home]
    for place in places:
        place.mkdir(exist_ok=True)
    (killed, left), (living, used) = hold(places[1]), hold(places[1])
    try:
        killed.kill()
        killed.wait()
        assert (left / "CURRENT").exists()
        with scratch_folder(places[0], ScratchKind.SPARK) as folder:
            assert not left.exists()
            assert (used / "CURRENT").exists()
            assert folder.exists()
    finally:
        living.communicate("")
    assert not used.exists()


def test_a_place_that_is_not_there_yet_is_made_as_spark_makes_it(tmp_path: Path) -> None:
    with scratch_folder(tmp_path / "disk" / "scratch", ScratchKind.DATABASE) as folder:
        assert folder.exists()


def test_a_machine_without_any_place_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("tempfile._candidate_tempdir_list", lambda: ["/nowhere"])
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    with pytest.raises(RequestError, match="no place for temporary files") as refused:
        scratch_directory()
    assert "TMPDIR" in (refused.value.advice or "")


def test_directories_of_others_stay(tmp_path: Path) -> None:
    others = [tmp_path / "blockmgr-1" / "0f", tmp_path / "mine", tmp_path / "rescale-plan"]
    for other in others:
        other.mkdir(parents=True)
    with scratch_folder(tmp_path / "blockmgr-1", ScratchKind.DATABASE):
        pass
    assert all(other.exists() for other in others)


def test_a_directory_that_goes_before_it_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process took it for one that was left."""
    made: list[str] = []

    def make(**words: str) -> str:
        path = mkdtemp(**words)
        made.append(path)
        if len(made) == 1:
            Path(path).rmdir()
        if len(made) == 2:
            monkeypatch.setattr("fcntl.flock", lambda *_: shutil.rmtree(path, ignore_errors=True))
        return path

    mkdtemp = tempfile.mkdtemp
    monkeypatch.setattr("tempfile.mkdtemp", make)
    with scratch_folder(tmp_path, ScratchKind.DATABASE) as folder:
        assert [str(folder)] == made[2:]
        assert folder.exists()


def test_a_file_system_without_locks_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS locks only what is open for writing, which no directory can be."""

    def refuse(*_: object) -> NoReturn:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    left = tmp_path / f"{ScratchKind.DATABASE}left"
    left.mkdir()
    monkeypatch.setattr("fcntl.flock", refuse)
    with scratch_folder(tmp_path, ScratchKind.DATABASE) as folder:
        assert folder.is_dir()
    assert not folder.exists()
    assert left.exists()
