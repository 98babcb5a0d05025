"""The files, directories and links below a directory, for checks that none has changed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class Item(NamedTuple):
    """A file, directory or link; `content` is a file's bytes, or the destination of a link."""

    inode: int
    mode: int
    mtime_ns: int
    content: bytes


def tree(root: Path) -> dict[str, Item]:
    """Return the entries below `root`, itself included, by path; links are not followed."""
    return {str(path.relative_to(root)): _item(path) for path in (root, *_below(root))}


def _below(root: Path) -> list[Path]:
    return [Path(folder, name) for folder, folders, names in os.walk(root) for name in (*folders, *names)]


def _item(path: Path) -> Item:
    status = path.lstat()
    content = b""
    if path.is_symlink():
        content = os.fsencode(path.readlink())
    elif path.is_file():
        content = path.read_bytes()
    return Item(status.st_ino, status.st_mode, status.st_mtime_ns, content)
