"""Scratch directories on this machine, which are removed after the process that made them, even if it was killed.

The name of a directory does not prove who made it, so the first file in it is a marker (`MARKER`). The marker names the
directory (by name and inode, so that it is not valid for a copy), the process and its machine. The process locks the
marker (`flock`), and the lock ends with the process. So the directory of a killed process is not locked any more. The
next process that makes a directory in the same place removes it, and so does `rescale discard`. Both remove a directory
only if it has such a marker and lies directly in a place for scratch directories. They follow no link and no mount. A
process that is killed before it wrote the marker leaves an empty directory, or one with an empty marker, which stays.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from rescale.storage.files import mounts, owned
from rescale.storage.files.local_errors import error_class
from rescale.text.advice import SAME_COMMAND, Advice
from rescale.text.errors import DECODE_ERRORS, RequestError, StoreError
from rescale.text.names import encodable

MARKER = ".rescale-scratch"
"""Name of the marker of a scratch directory."""

_LARGEST_MARKER_BYTES = 4096
"""Largest marker, in bytes."""

SHORT_BASE_FOLDER = "/tmp"
"""Directory for scratch directories with sockets, which must have short paths."""

_WRITABLE_ADVICE = (
    "name a writable directory in SPARK_LOCAL_DIRS, or in TMPDIR (on a Spark cluster: in spark.local.dir)"
)

MORE_ROOM_ADVICE = Advice(
    "make room there, or name a directory with more room in SPARK_LOCAL_DIRS (on a Spark cluster: in spark.local.dir, "
    "or a larger volume), then ",
    SAME_COMMAND,
    ": it resumes",
)
"""Advice for a full scratch directory."""

_SPARK_DIRECTORY_PATTERN = "blockmgr-*"
"""Scratch directories of Spark's applications (`DiskBlockManager`), which killed applications leave."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""File with Linux's id of the current boot of this machine, also in containers."""

_PROCESS_STATUS, _START_TIME_FIELD = Path("/proc/self/stat"), 19
"""Linux's file about this process, and the index of the start time among the fields after the name of the process."""

_NO_LOCK_ERRORS = (errno.EBADF, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Errors of a file system without locks (`flock(2)`), where scratch directories of other processes stay."""


class ScratchKind(StrEnum):
    """Purpose of a scratch directory; the value is the prefix of its name."""

    DATABASE = "rescale-database-"
    SPARK = "rescale-spark-"
    TASKS = "rescale-tasks-"
    LIBRARY = "rescale-library-"
    EVENT_LOG = "rescale-event-log-"
    RESULT = "rescale-result-"
    CHANGELOG = "rescale-changelog-"
    DEMO = "rescale-demo-"


def temporary_directory() -> str:
    """Return the system's directory for temporary files.

    Raises `RequestError` if there is none, or if its name is not UTF-8: processes tell each other its name in JSON.
    """
    try:
        directory = owned.temporary_folder()
    except FileNotFoundError as error:
        raise RequestError(
            "there is no writable directory for temporary files",
            found=error.strerror,
            advice="set TMPDIR to a directory that the user who runs this may write to",
        ) from None
    if encodable(directory) != directory:
        raise RequestError(
            "the name of the directory for temporary files is not UTF-8",
            path=ascii(directory),
            advice="set TMPDIR to another directory",
        )
    return directory


def scratch_directory() -> str:
    """Return the first directory of `SPARK_LOCAL_DIRS`; if it names none, the system's for temporary files."""
    return scratch_directories()[0]


def scratch_directories() -> list[str]:
    """Return all directories in which tasks may make scratch directories."""
    directories = [directory for directory in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if directory]
    return directories or [temporary_directory()]


@contextmanager
def scratch_errors(default_path: str | None = None) -> Iterator[None]:
    """Turn errors of the operating system in the block, which uses a scratch directory, into Rescale's errors.

    The error names `default_path`, or the first scratch directory, if the operating system names no file. It is a
    `RequestError` if there can be no directory, or if this user may not write to it; else it is a `StoreError`.
    """
    try:
        yield
    except OSError as error:
        error_type = error_class(error)
        raise error_type(
            f"the scratch directory cannot be used: {error.strerror}",
            path=str(error.filename or default_path or scratch_directory()),
            advice=MORE_ROOM_ADVICE if error_type is StoreError else _WRITABLE_ADVICE,
        ) from None


class _Marker(NamedTuple):
    """Content of a marker; `started` is the start of the process in ticks since `boot`; both are "" if not known."""

    directory: str
    inode: int
    host: str
    boot: str
    pid: int
    started: str


@contextmanager
def scratch_folder(base_folder: Path, kind: ScratchKind) -> Iterator[Path]:
    """Make a new directory in `base_folder` for the block, and remove it afterwards.

    `base_folder` is made if needed, and stays.
    """
    owned.make_folder(base_folder)
    remove_abandoned(base_folder)
    path = owned.make_unique_folder(base_folder, kind)
    identity = mounts.identity_of(path)
    folder_descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    marker_descriptor = owned.new_file(path / MARKER)
    try:
        # Lock the directory, too: releases without markers check only that lock.
        for descriptor in (folder_descriptor, marker_descriptor):
            with _ignoring_missing_locks():
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(marker_descriptor, msgspec.json.encode(_marker_of(path)))
        yield path
    finally:
        with suppress(OSError):
            if identity is not None:
                owned.remove_tree(path, identity, MARKER)
        os.close(marker_descriptor)
        os.close(folder_descriptor)


def remove_abandoned(base_folder: Path) -> None:
    """Remove the scratch directories of dead processes in `base_folder`, and in Spark's directories beside it."""
    spark_directories = [path for path in base_folder.parent.glob(_SPARK_DIRECTORY_PATTERN) if not path.is_symlink()]
    for directory in {base_folder, *spark_directories}:
        for path in list(directory.glob("rescale-*")):
            if path.name.startswith(tuple(ScratchKind)):
                remove_if_abandoned(path)


def remove_if_abandoned(path: Path) -> None:
    """Remove a scratch directory if its marker is valid and its process is dead."""
    # Errors mean that the directory is in use, or belongs to another user.
    with suppress(OSError, RequestError), ExitStack() as stack:
        folder_descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        stack.callback(os.close, folder_descriptor)
        folder_status = os.fstat(folder_descriptor)
        marker_descriptor = owned.open_in(folder_descriptor, MARKER)
        stack.callback(os.close, marker_descriptor)
        marker_status = os.fstat(marker_descriptor)
        if (
            not stat.S_ISREG(marker_status.st_mode)
            or marker_status.st_nlink > 1
            or {marker_status.st_uid, folder_status.st_uid} != {os.geteuid()}
        ):
            return
        fcntl.flock(marker_descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_abandoned(os.read(marker_descriptor, _LARGEST_MARKER_BYTES), path, folder_status.st_ino):
            owned.remove_tree(path, mounts.Identity(folder_status.st_dev, folder_status.st_ino), MARKER)


def remove_all_abandoned() -> None:
    """Remove the scratch directories of dead processes in all places where this machine has such directories."""
    for base_folder in {temporary_directory(), *scratch_directories(), SHORT_BASE_FOLDER}:
        remove_abandoned(Path(base_folder))


def unnamed_file() -> IO[bytes]:
    """Open a scratch file without a name, which is removed when it is closed."""
    return owned.unnamed_file(scratch_directory())


def spooled_file(memory_bytes: int) -> IO[bytes]:
    """Open a file as `unnamed_file` does, but keep it in memory up to `memory_bytes` bytes."""
    return owned.spooled_file(memory_bytes, scratch_directory())


@contextmanager
def _ignoring_missing_locks() -> Iterator[None]:
    """Ignore errors of a file system without locks."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_LOCK_ERRORS:
            raise


def _is_abandoned(data: bytes, path: Path, inode: int) -> bool:
    """Tell whether the content of an unlocked marker names this directory and a process of this machine.

    A free lock proves nothing about a process on another machine that mounts the same file system without locks.
    """
    try:
        marker = msgspec.json.decode(data, type=_Marker)
    except DECODE_ERRORS:
        return False
    boot = _text_of(_BOOT_ID)
    is_of_this_machine = marker.boot == boot != "" or marker.host == socket.gethostname()
    return (marker.directory, marker.inode) == (path.name, inode) and is_of_this_machine


def _marker_of(path: Path) -> _Marker:
    status_fields = _text_of(_PROCESS_STATUS).rpartition(")")[2].split()
    start_time = status_fields[_START_TIME_FIELD] if status_fields else ""
    return _Marker(path.name, path.stat().st_ino, socket.gethostname(), _text_of(_BOOT_ID), os.getpid(), start_time)


def _text_of(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
