"""Names of the directories in which runs keep their documents (`<target>.rescale`), and checks that Rescale made one.

A file in each such directory, the marker, says that Rescale made it. This module only reads; `owned` makes and changes
these directories.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from rescale.storage.files.mounts import is_mount_point
from rescale.text.errors import RequestError

DOCUMENTS_SUFFIX = ".rescale"
"""Suffix of the name of a directory of documents."""

STAGING = "staging"
"""Directory of unfinished files. It lies in a directory of documents, whose marker also applies to it."""

PINS, ROUNDS, ORDERS = "pins", "rounds", "orders"
"""Directories of a follower. They lie in a directory of documents, whose marker applies to everything in them."""

FOLDERS = (STAGING, PINS, ROUNDS, ORDERS)
"""All directories in a directory of documents."""

MARKER = ".rescale-owner"
"""Name of the marker: the file that says that Rescale made a directory of documents."""

MADE_TARGET_MARKER = ".rescale-made-target"
"""File in a directory of documents; it records that a run made the target's directory."""

HIDDEN_NAMES = frozenset({MARKER, MADE_TARGET_MARKER})
"""Files in a directory of documents that are no documents; they are removed with it."""


def is_inside_marked(folder: Path) -> bool:
    """Tell whether a directory is, or lies in, one of `FOLDERS` of a marked directory of documents."""
    return any(is_marked(path.parent) for path in _folders_around(folder))


def is_below_documents(folder: Path) -> bool:
    """Tell whether a directory is, or lies in, one of `FOLDERS` by its path alone, without a look at markers."""
    return any(_folders_around(folder))


def _folders_around(folder: Path) -> Iterator[Path]:
    return (
        path
        for path in (folder, *folder.parents)
        if path.name in FOLDERS and path.parent.name.endswith(DOCUMENTS_SUFFIX)
    )


def is_marked(folder: Path) -> bool:
    """Tell whether a path is a marked directory of documents, and not a link to one."""
    try:
        return stat.S_ISDIR(folder.lstat().st_mode) and stat.S_ISREG((folder / MARKER).lstat().st_mode)
    except OSError:
        return False


def refuse_link_or_mount(folder: Path) -> None:
    """Raise `RequestError` if a directory of documents, or one below it, is a link or a mount."""
    try:
        status = folder.lstat()
    except OSError:  # the caller's next call on the directory fails, and reports why
        return
    if stat.S_ISLNK(status.st_mode):
        raise not_ours_error(folder, f"a link to {folder.readlink()}")
    if stat.S_ISDIR(status.st_mode) and is_mount_point(folder):
        raise not_ours_error(folder, "a mount point")


def not_ours_error(folder: Path, content: str) -> RequestError:
    """Return the error for a directory that Rescale did not make; `content` says what was found."""
    return RequestError(
        "Rescale did not make this directory, so it writes and removes nothing in it",
        path=str(folder),
        expected="no such directory yet, or one that a run made for its documents",
        found=content,
        advice="name another target, or remove the directory yourself if nobody needs it",
    )


def records_made_target(folder: Path) -> bool:
    """Tell whether the documents of a target record that a run made its directory."""
    documents = documents_of(folder)
    return is_marked(documents) and (documents / MADE_TARGET_MARKER).exists()


def documents_of(folder: Path) -> Path:
    return Path(f"{os.path.realpath(folder)}{DOCUMENTS_SUFFIX}")
