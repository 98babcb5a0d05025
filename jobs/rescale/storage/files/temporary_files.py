"""Files that are written under another name first, and forced to disk before they get theirs.

They lie beside the directory that is written to: what lists a target must not take them for state. Only where that
leads to another mount (the directory is a mount point) or is closed to us they lie in it. Who writes one holds its
lock, which ends with the process, by SIGKILL too.
"""

from __future__ import annotations

import fcntl
import os
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rescale.storage.files.durable_directories import directory_for, in_one_mount


@contextmanager
def temporary(uri: str, fill: Callable[[int], None]) -> Iterator[Path]:
    """A file, on disk, on the same file system as `uri` and outside its directory if that can be.

    `fill` gets its descriptor, and writes it.
    """
    folder = Path(uri).parent
    with directory_for(folder):
        beside = folder.parent
        apart = in_one_mount(beside, folder) and os.access(beside, os.W_OK)
        path = (beside if apart else folder) / f".{folder.name}.{uuid.uuid4().hex}.tmp"
        with _told_as(uri, path):
            try:
                with path.open("xb") as file:
                    with suppress(OSError):  # a file system without locks: then nobody else removes the file either
                        fcntl.flock(file, fcntl.LOCK_EX)
                    fill(file.fileno())
                    os.fsync(file.fileno())
                    yield path
            finally:
                path.unlink(missing_ok=True)


@contextmanager
def _told_as(uri: str, path: Path) -> Iterator[None]:
    """Errors in the block name what was asked for, and not the path, which nobody has given."""
    try:
        yield
    except OSError as error:
        if error.filename == str(path):
            error.filename = uri
        raise


def is_temporary(folder: str, file: str) -> bool:
    """Whether a file of this name is, or was, being written into a directory of that name."""
    return re.fullmatch(rf"\.{re.escape(folder)}\.[0-9a-f]{{32}}\.tmp", file) is not None


def remove_abandoned(folder: Path) -> None:
    """What those left who wrote into the directory and are dead."""
    for place in (folder.parent, folder):
        with suppress(FileNotFoundError, NotADirectoryError):
            for path in [one for one in place.iterdir() if is_temporary(folder.name, one.name)]:
                _remove_unless_locked(path)


def _remove_unless_locked(path: Path) -> None:
    with suppress(FileNotFoundError, BlockingIOError), path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            return  # a file system without locks: nobody can tell whether somebody still writes
        path.unlink()
