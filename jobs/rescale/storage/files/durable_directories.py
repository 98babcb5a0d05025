"""Makes directories that survive a failure of the machine, and forces new names in them to disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rescale.storage.files import owned
from rescale.storage.files.mounts import closed_after


@contextmanager
def directory_for(folder: Path) -> Iterator[None]:
    """Make a directory durably; after an `OSError` in the block, remove the new directories that are empty."""
    missing_directories = [path for path in (folder, *folder.parents) if not path.is_dir()]
    try:
        make_directory(folder)
        yield
    except OSError:
        for path in missing_directories:
            owned.remove_folder(path)
        raise


def make_directory(folder: Path) -> None:
    owned.make_folder(folder, force_to_disk)


def are_in_one_mount(*folders: Path) -> bool:
    """Tell whether a rename can move files between two directories, once both exist."""
    existing_folders = [next(path for path in (folder, *folder.parents) if path.is_dir()) for folder in folders]
    return owned.are_in_one_mount(*existing_folders)


def force_to_disk(path: Path) -> None:
    """Force a file, or the names in a directory, to disk.

    Shared folders of virtual machines cannot force directories to disk: fsync(2) fails with `EINVAL`, which is ignored.
    """
    with closed_after(os.open(path, os.O_RDONLY)) as descriptor:
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno != errno.EINVAL or not path.is_dir():
                raise
