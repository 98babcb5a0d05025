"""Finds out where paths lead, with links and bind mounts resolved, and whether two paths lead to the same file.

A directory that is mounted a second time has another path, but lies in the same file system. On Linux, a `DevicePath`
is a file system and the path in it, found in the mount table (`/proc/self/mountinfo`). Elsewhere it is only the real
path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
"""Flags to open a directory for calls relative to it; on Linux the directory need not be readable."""

_OCTAL = re.compile(r"\\([0-7]{3})")
_MOUNT_TABLE = Path("/proc/self/mountinfo")


class DevicePath(NamedTuple):
    """A file system, and a path in it; `device` is "" if only the real path is known."""

    device: str
    path: str

    def contains(self, other: DevicePath) -> bool:
        """Tell whether `other` is this path or lies below it."""
        is_same_device = self.device == other.device
        return is_same_device and (self.path == other.path or other.path.startswith(self.path.rstrip("/") + "/"))


@contextmanager
def closed_after(descriptor: int) -> Iterator[int]:
    """Close an open file or directory after the block."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def device_path_of(path: Path) -> DevicePath:
    """Return the device path that a path leads to, whether or not anything exists there yet, or is accessible."""
    real_path = Path(os.path.realpath(path))
    existing_folder = next(folder for folder in (real_path, *real_path.parents) if os.path.isdir(folder))  # noqa: PTH112
    try:
        with closed_after(os.open(existing_folder, FOLDER_FLAGS)) as descriptor:
            mount_id = mount_id_of(descriptor)
        mount_table = _MOUNT_TABLE.read_bytes().removesuffix(b"\n").split(b"\n") if mount_id is not None else []
    except OSError:  # nothing at this path is accessible, or the system has no mount table
        return DevicePath("", str(real_path))
    for line in mount_table:
        # Split as bytes, because names may contain white space of Unicode, and bytes that are not UTF-8.
        line_mount_id, _, device, root_in_filesystem, mount_point = map(os.fsdecode, line.split(b" ")[:5])
        if line_mount_id == mount_id:
            relative_path = os.path.relpath(real_path, _unescaped_path(mount_point))
            path_in_filesystem = os.path.join(_unescaped_path(root_in_filesystem), relative_path)  # noqa: PTH118
            return DevicePath(device, os.path.normpath(path_in_filesystem))
    return DevicePath("", str(real_path))


def mount_id_of(descriptor: int) -> str | None:
    """Return the number of the mount that an open directory was reached through; None if the system has none."""
    try:
        file_info = Path(f"/proc/self/fdinfo/{descriptor}").read_text()
    except OSError:
        return None
    return next((line.split()[1] for line in file_info.splitlines() if line.startswith("mnt_id:")), None)


def is_mount_point(folder: Path) -> bool:
    """Tell whether a directory is in another mount or file system than its parent."""
    mounts = []
    for path in (folder, folder.parent):
        with closed_after(os.open(path, FOLDER_FLAGS)) as descriptor:
            mounts.append((mount_id_of(descriptor), os.fstat(descriptor).st_dev))
    return mounts[0] != mounts[1]


def _unescaped_path(path: str) -> str:
    """Return a path of the mount table with its octal escapes decoded."""
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), path)


class Identity(NamedTuple):
    """The identity of a directory or a file, which does not depend on its name."""

    device: int
    inode: int


def identity_of(path: Path) -> Identity | None:
    """Return the identity of the directory or file that a path leads to; None if there is none."""
    try:
        return identity_from(path.stat())
    except (OSError, ValueError):
        return None


def identity_from(status: os.stat_result) -> Identity:
    return Identity(status.st_dev, status.st_ino)
