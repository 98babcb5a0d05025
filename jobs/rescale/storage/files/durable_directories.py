"""Directories that are still there after the machine has failed, and names in them."""

from __future__ import annotations

import errno
import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def directory_for(folder: Path) -> Iterator[None]:
    """It is there for the block, durably; where no room is left for what comes into it, no empty one stays."""
    missing = [one for one in (folder, *folder.parents) if not one.is_dir()]
    try:
        make_directory(folder)
        yield
    except OSError:
        for one in missing:
            with suppress(OSError):  # not empty, or not there
                one.rmdir()
        raise


def make_directory(folder: Path) -> None:
    """The directory and those above it, durably."""
    if not folder.is_dir():
        make_directory(folder.parent)
        try:
            folder.mkdir()
        except FileExistsError:  # made by somebody else, and perhaps taken away again, which is for who writes to tell
            if folder.is_symlink() and not folder.exists():  # it leads nowhere, and will
                raise
            with suppress(FileNotFoundError):
                if not stat.S_ISDIR(folder.stat().st_mode):
                    raise
        force_to_disk(folder.parent)


def device_of(folder: Path) -> int:
    """The number of the file system that the directory is on, or will be when it is made."""
    for one in (folder, *folder.parents):
        with suppress(FileNotFoundError):  # an empty staging directory goes with the last file, seen or not
            if one.is_dir():
                return one.stat().st_dev
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))


def in_one_mount(*folders: Path) -> bool:
    """Whether files go from one of two directories to the other by a new name alone, when both are made.

    A file system may be mounted twice, or a directory of it over another one, and has one number then. But of a name
    that is not there rename(2) says first whether it would lead to another mount.
    """
    if len(set(map(device_of, folders))) > 1:
        return False
    name = uuid.uuid4().hex
    source, target = (next(one for one in (folder, *folder.parents) if one.is_dir()) for folder in folders)
    try:
        (source / name).rename(target / name)
    except OSError as error:
        return error.errno != errno.EXDEV
    return True


def force_to_disk(path: Path) -> None:
    """A file, or the names in a directory, where the file system has that: shared folders of virtual machines do not.

    These say `EINVAL` (fsync(2)), and take names as they take bytes.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL or not path.is_dir():
            raise
    finally:
        os.close(descriptor)
