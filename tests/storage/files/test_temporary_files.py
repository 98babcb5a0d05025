"""Temporary files that dead processes left are removed, and no others."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from rescale.storage.files.document_folders import MARKER
from rescale.storage.files.temporary_files import documents_around, is_temporary, remove_abandoned, temporary_file
from rescale.text.errors import RescaleError

TEMPORARY_NAME = ".{}." + "a1" * 16 + ".tmp"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Return a target with documents beside it."""
    target = tmp_path / "target"
    for folder in (target, documents_around(target)):
        folder.mkdir()
    (documents_around(target) / MARKER).touch()
    return target


def test_abandoned_files_of_a_target_and_its_documents_are_removed(target: Path) -> None:
    documents = documents_around(target)
    abandoned_files = [
        target / TEMPORARY_NAME.format("target"),
        documents / TEMPORARY_NAME.format("target"),
        documents / TEMPORARY_NAME.format("other"),
    ]
    kept_files = [target / TEMPORARY_NAME.format("other"), target / "_metadata", documents / "plan.json"]
    for path in (*abandoned_files, *kept_files):
        path.touch()
    remove_abandoned(target)
    assert not any(path.exists() for path in abandoned_files)
    assert all(path.exists() for path in kept_files)
    abandoned_files[1].touch()
    remove_abandoned(documents)
    assert not abandoned_files[1].exists()


def test_files_that_may_be_in_use_are_kept(target: Path) -> None:
    """A process that writes a file holds its lock; a second name and a link are made by others."""
    temporary = target / TEMPORARY_NAME.format("target")
    temporary.write_bytes(b"state")
    with temporary.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        remove_abandoned(target)
        assert temporary.exists()
    os.link(temporary, target / "second")
    remove_abandoned(target)
    assert temporary.exists()
    temporary.unlink()
    temporary.symlink_to(target / "second")
    remove_abandoned(target)
    assert temporary.is_symlink()


def test_nothing_is_removed_without_documents_of_a_run(tmp_path: Path) -> None:
    temporary = tmp_path / TEMPORARY_NAME.format(tmp_path.name)
    temporary.touch()
    remove_abandoned(tmp_path)
    assert temporary.exists()


def _write_state(descriptor: int) -> None:
    os.write(descriptor, b"state")


@pytest.mark.parametrize("has_documents", [False, True])
def test_temporary_file_lies_outside_of_the_directory_of_its_file(tmp_path: Path, has_documents: bool) -> None:
    folder = tmp_path / "target"
    folder.mkdir()
    documents = documents_around(folder)
    if has_documents:
        documents.mkdir()
        (documents / MARKER).touch()
    with temporary_file(str(folder / "file"), _write_state) as path:
        assert path.parent == (documents if has_documents else tmp_path)
        assert is_temporary("target", path.name)
        assert not is_temporary("targe", path.name)
        assert path.read_bytes() == b"state"
        remove_abandoned(folder)
        assert path.exists(), "its lock says that this process writes it"
    assert not path.exists()


def test_errors_name_the_file_that_the_user_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a full disk names the file, not its temporary name, and nothing is left."""

    def fail_on_full_disk(path: Path) -> int:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("rescale.storage.files.owned.new_file", fail_on_full_disk)
    (tmp_path / "target").mkdir()
    with (
        pytest.raises((OSError, RescaleError)) as caught,
        temporary_file(str(tmp_path / "target" / "file"), lambda _: None),
    ):
        pass
    assert str(tmp_path / "target" / "file") in str(caught.value)
    assert ".tmp" not in str(caught.value)
