"""Where paths lead, also without access to them, and whatever names the mount table has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rescale.storage.files import mounts
from rescale.storage.files.mounts import FOLDER_FLAGS, DevicePath, closed_after, device_path_of, mount_id_of
from support.users import without_access


def test_place_without_access_has_the_location_that_its_owner_sees(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with without_access(folder):
        location = device_path_of(folder / "target")
    assert location == device_path_of(folder / "target")


def test_name_that_is_too_long_has_a_location(tmp_path: Path) -> None:
    folder, name = device_path_of(tmp_path), "a" * 300
    assert device_path_of(tmp_path / name) == DevicePath(folder.device, f"{folder.path}/{name}")


def test_names_in_the_mount_table_may_have_any_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "新しい\u3000フォルダー"  # with an ideographic space
    folder.mkdir()
    with closed_after(os.open(folder, FOLDER_FLAGS)) as descriptor:
        mount_id = mount_id_of(descriptor) or ""
    lines = [b"1 0 8:1 / /media/\xe9t\xe9 rw", b"2 0 8:2 / /media/a\x85b\rc rw"]
    lines.append(f"{mount_id} 0 8:3 /home {folder} rw".encode())
    (tmp_path / "mounts").write_bytes(b"".join(line + b" - ext4 /dev/sda rw\n" for line in lines))
    monkeypatch.setattr(mounts, "_MOUNT_TABLE", tmp_path / "mounts")
    assert device_path_of(folder / "target") == DevicePath("8:3", "/home/target")
