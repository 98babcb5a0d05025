"""Writes every file under a temporary name, and forces it to disk before it gets its own name.

The temporary file is not in the directory of its final file, where a listing would show it as state. For a file of a
run, it is among the run's documents (`<target>.rescale`); for another file, it is beside the file's directory. If that
place is not writable, or is in another mount, the temporary file is in the directory of its final file after all,
because no rename leads from one mount to another.

The process that writes a file locks it, and the lock ends with the process, even if the process is killed. So temporary
files without a lock are removed from marked directories of documents, and from their targets.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rescale.storage.files import document_folders, owned
from rescale.storage.files.durable_directories import are_in_one_mount, directory_for
from rescale.storage.files.mounts import closed_after

_TEMPORARY_NAME = re.compile(r"\..+\.[0-9a-f]{32}\.tmp", re.DOTALL)


@contextmanager
def temporary_file(uri: str, fill: Callable[[int], None]) -> Iterator[Path]:
    """Write a temporary file for `uri`, force it to disk, and yield its path; remove it after the block.

    `fill` gets the descriptor of the file, and writes its content. The file is in the same mount as `uri`, and outside
    of its directory if possible.
    """
    folder = Path(uri).parent
    with directory_for(folder):
        path = _temporary_folder_for(folder) / f".{folder.name}.{uuid.uuid4().hex}.tmp"
        with _uri_in_errors(uri, path):
            descriptor = owned.new_file(path)
            try:
                # On a file system without locks, no process removes the temporary files of others.
                with suppress(OSError):
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
                fill(descriptor)
                os.fsync(descriptor)
                yield path
            finally:
                os.close(descriptor)
                owned.unlink(path)


def _temporary_folder_for(folder: Path) -> Path:
    """Return the directory for temporary files of the files in `folder`."""
    if document_folders.is_marked(folder):
        return folder
    documents = documents_around(folder)
    preferred_folder = documents if document_folders.is_marked(documents) else folder.parent
    return (
        preferred_folder
        if are_in_one_mount(preferred_folder, folder) and os.access(preferred_folder, os.W_OK)
        else folder
    )


def documents_around(folder: Path) -> Path:
    """Return the directory of documents of a target. For a directory of unfinished files, return the one it is in."""
    if folder.name == document_folders.STAGING and folder.parent.name.endswith(document_folders.DOCUMENTS_SUFFIX):
        return folder.parent
    return document_folders.documents_of(folder)


@contextmanager
def _uri_in_errors(uri: str, path: Path) -> Iterator[None]:
    """Name `uri`, which the user knows, in errors of the block, instead of the temporary file at `path`."""
    try:
        yield
    except OSError as error:
        if error.filename == str(path):
            error.filename = uri
        raise


def is_temporary(folder: str, file: str) -> bool:
    """Tell whether `file` is the name of a temporary file for the directory with the name `folder`."""
    return re.fullmatch(rf"\.{re.escape(folder)}\.[0-9a-f]{{32}}\.tmp", file) is not None


def remove_abandoned(folder: Path) -> None:
    """Remove the temporary files of dead processes from `folder` and its directory of documents, if that is marked."""
    documents = folder if document_folders.is_marked(folder) else documents_around(folder)
    if not document_folders.is_marked(documents):
        return
    for searched_folder in {documents, folder}:
        with suppress(FileNotFoundError, NotADirectoryError):
            for path in searched_folder.iterdir():
                if (
                    _TEMPORARY_NAME.fullmatch(path.name)
                    if searched_folder == documents
                    else is_temporary(folder.name, path.name)
                ):
                    _remove_unless_locked(path)


def _remove_unless_locked(path: Path) -> None:
    with suppress(FileNotFoundError, BlockingIOError):
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            return
        with closed_after(os.open(path, os.O_RDONLY | os.O_NOFOLLOW)) as descriptor:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise
            except OSError:
                return  # on a file system without locks, another process may still write the file
            owned.unlink(path)
