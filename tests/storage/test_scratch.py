"""Scratch folders, which are removed with the process that made them."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from rescale.storage.scratch import (
    MARKER,
    ScratchKind,
    remove_abandoned,
    scratch_directory,
    scratch_errors,
    scratch_folder,
    temporary_directory,
    unnamed_file,
)
from rescale.text.errors import RequestError, StoreError
from support.disks import bound
from support.trees import tree

HOLDER_PROGRAM = """
import sys
from pathlib import Path
from rescale.text.errors import RequestError
from rescale.storage.scratch import ScratchKind, scratch_directory, scratch_folder
with scratch_folder(Path(sys.argv[1]), ScratchKind.DATABASE) as folder:
    (folder / "CURRENT").write_bytes(b"x")
    print(folder, flush=True)
    sys.stdin.read()
"""


def hold_scratch_folder(directory: Path) -> tuple[subprocess.Popen[str], Path]:
    """Start a process that has a scratch folder below `directory` until it ends. Return both."""
    command = [sys.executable, "-c", HOLDER_PROGRAM, str(directory)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_scratch_folder_is_removed_at_the_end_of_the_block(tmp_path: Path) -> None:
    with scratch_folder(tmp_path, ScratchKind.DATABASE) as folder:
        assert list(tmp_path.iterdir()) == [folder]
        (folder / "file").write_bytes(b"x")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="mine"), scratch_folder(tmp_path, ScratchKind.DATABASE):
        raise ValueError("mine")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("local_directory", ["blockmgr-1", "blockmgr-2"])
def test_scratch_folder_of_a_killed_process_is_removed_by_the_next(local_directory: str, tmp_path: Path) -> None:
    """This holds even if the killed process belonged to another application, with its own local directory of Spark."""
    directories = [tmp_path / "blockmgr-1", tmp_path / local_directory]
    for directory in directories:
        directory.mkdir(exist_ok=True)
    (killed_process, abandoned_folder), (living_process, used_folder) = (
        hold_scratch_folder(directories[1]),
        hold_scratch_folder(directories[1]),
    )
    try:
        killed_process.kill()
        killed_process.wait()
        assert (abandoned_folder / "CURRENT").exists()
        with scratch_folder(directories[0], ScratchKind.SPARK) as folder:
            assert not abandoned_folder.exists()
            assert (used_folder / "CURRENT").exists()
            assert folder.exists()
    finally:
        living_process.communicate("")
    assert not used_folder.exists()


def test_missing_parent_of_a_scratch_folder_is_created(tmp_path: Path) -> None:
    with scratch_folder(tmp_path / "disk" / "scratch", ScratchKind.DATABASE) as folder:
        assert folder.exists()


def test_machine_without_a_writable_temporary_directory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("tempfile._candidate_tempdir_list", lambda: ["/nowhere"])
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    with pytest.raises(RequestError, match="no writable directory for temporary files") as caught:
        scratch_directory()
    assert "TMPDIR" in (caught.value.advice or "")


def test_temporary_directory_whose_name_is_not_utf_8_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/tmp/caf\udce9")
    with pytest.raises(RequestError, match="is not UTF-8") as caught:
        temporary_directory()
    assert "TMPDIR" in (caught.value.advice or "")


@pytest.mark.parametrize("relative_path", ["file", "file/below"])
def test_file_in_place_of_a_scratch_directory_is_a_fault_of_the_request(
    relative_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("somebody's")
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / relative_path))
    for use in (lambda: scratch_folder(Path(scratch_directory()), ScratchKind.DATABASE), unnamed_file):
        with pytest.raises(RequestError, match="the scratch directory cannot be used") as caught:  # noqa: SIM117
            with scratch_errors(), use():
                pass
        assert (caught.value.path or "").startswith(str(tmp_path / "file"))
        assert "SPARK_LOCAL_DIRS" in (caught.value.advice or "")
    assert (tmp_path / "file").read_text() == "somebody's"


@pytest.mark.parametrize("error_number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_failing_scratch_directory_is_worth_another_try(error_number: int, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=os.strerror(error_number)) as caught, scratch_errors(str(tmp_path)):
        raise OSError(error_number, os.strerror(error_number))
    assert caught.value.path == str(tmp_path)
    assert "SPARK_LOCAL_DIRS" in (caught.value.advice or "")


def test_directories_of_others_beside_a_scratch_folder_are_kept(tmp_path: Path) -> None:
    other_folders = [tmp_path / "blockmgr-1" / "0f", tmp_path / "mine", tmp_path / "rescale-plan"]
    for folder in other_folders:
        folder.mkdir(parents=True)
    with scratch_folder(tmp_path / "blockmgr-1", ScratchKind.DATABASE):
        pass
    assert all(folder.exists() for folder in other_folders)


@pytest.mark.parametrize("killed_when", ["before the marker", "while it writes the marker"])
def test_unfinished_scratch_folder_is_kept_and_has_no_content(killed_when: str, tmp_path: Path) -> None:
    """A folder that another process is making looks the same, so neither is removed."""
    (unfinished_folder := tmp_path / f"{ScratchKind.DATABASE}made").mkdir()
    if killed_when == "while it writes the marker":
        (unfinished_folder / MARKER).touch()
    before = tree(unfinished_folder)
    with scratch_folder(tmp_path, ScratchKind.DATABASE):
        assert tree(unfinished_folder) == before
    assert sum(item.content != b"" for item in before.values()) == 0


def test_scratch_folder_is_locked_for_releases_without_markers(tmp_path: Path) -> None:
    """An earlier release, which looks only at the lock of the directory, may run at the same time."""
    with scratch_folder(tmp_path, ScratchKind.SPARK) as folder:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            with pytest.raises(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(descriptor)


def folder_of_killed_process(directory: Path) -> Path:
    """Return the scratch folder of a process that was killed."""
    process, folder = hold_scratch_folder(directory)
    process.kill()
    process.wait()
    return folder


def _copy(path: Path) -> Path:
    return Path(shutil.copytree(path, path.parent / "rescale-database-copy"))


def _renamed(path: Path) -> Path:
    return path.rename(path.parent / "rescale-database-renamed")


def _linked(path: Path) -> Path:
    place = path.parent.parent / "elsewhere"
    path.rename(place)
    path.symlink_to(place)
    return place


def _of_another_machine(path: Path) -> Path:
    marker = json.loads((path / MARKER).read_bytes())
    (path / MARKER).write_text(json.dumps([*marker[:2], "another", "boot", *marker[4:]]))
    return path


def _with_a_linked_marker(path: Path) -> Path:
    (path / MARKER).rename(path.parent / "marker")
    (path / MARKER).symlink_to(path.parent / "marker")
    return path


@pytest.mark.parametrize("change", [_copy, _renamed, _linked, _of_another_machine, _with_a_linked_marker])
def test_scratch_folder_without_a_marker_of_its_own_is_kept(change: Callable[[Path], Path], tmp_path: Path) -> None:
    (directory := tmp_path / "place").mkdir()
    kept_folder = change(folder_of_killed_process(directory))
    before = tree(kept_folder)
    remove_abandoned(directory)
    assert tree(kept_folder) == before


def test_linked_and_mounted_files_in_an_abandoned_scratch_folder_are_kept(tmp_path: Path) -> None:
    for name in ("others", "place"):
        (tmp_path / name).mkdir()
    (tmp_path / "others" / "file").write_text("mine")
    path = folder_of_killed_process(tmp_path / "place")
    (path / "link").symlink_to(tmp_path / "others")
    (path / "deep" / "mounted").mkdir(parents=True)
    before = tree(tmp_path / "others")
    with bound(tmp_path / "others", path / "deep" / "mounted"):
        remove_abandoned(tmp_path / "place")
        assert tree(tmp_path / "others") == before
        assert path.is_dir()
    remove_abandoned(tmp_path / "place")
    assert tree(tmp_path / "others") == before
    assert not path.exists()


def test_scratch_folder_works_on_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS locks only files that are open for writing, so no directories."""

    def refuse(*_: object) -> NoReturn:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    abandoned_folder = tmp_path / f"{ScratchKind.DATABASE}left"
    abandoned_folder.mkdir()
    monkeypatch.setattr("fcntl.flock", refuse)
    with scratch_folder(tmp_path, ScratchKind.DATABASE) as folder:
        assert folder.is_dir()
    assert not folder.exists()
    assert abandoned_folder.exists()
