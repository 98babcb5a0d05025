"""The only module that makes, overwrites and removes local files. It changes only files that Rescale made.

A name does not prove who made a file, and a path may lead elsewhere from one moment to the next. So each change is made
relative to a directory that was opened first (`openat(2)` and similar calls), after these checks of the open directory:

* It is not protected (`protect`), nor below a protected directory: a source is never written to, whatever link or mount
  gives it another name.
* Its path leads where it led when this process first wrote there: a target that became a link is not written to.
* A directory of documents (`<target>.rescale`) is not a link or a mount, and holds a marker, its first file. An empty
  directory gets its marker now. `mark` marks directories that releases without markers have made.
* The directories in a directory of documents, such as that of unfinished files, are no links or mounts either, nor is
  anything below them.

An empty directory is removed if it is a directory of documents or lies in one, or if this process made it. The empty
directory of a target is also removed if its documents record that a run made it.

A process checks each directory once, and again when the path leads to another directory.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from rescale.storage.files.document_folders import (
    DOCUMENTS_SUFFIX,
    HIDDEN_NAMES,
    MADE_TARGET_MARKER,
    MARKER,
    documents_of,
    is_below_documents,
    is_inside_marked,
    is_marked,
    not_ours_error,
    records_made_target,
    refuse_link_or_mount,
)
from rescale.storage.files.local_errors import path_in_errors
from rescale.storage.files.mounts import (
    FOLDER_FLAGS,
    DevicePath,
    Identity,
    closed_after,
    device_path_of,
    identity_from,
    identity_of,
    mount_id_of,
)
from rescale.text.advice import SAME_COMMAND, Advice
from rescale.text.errors import RequestError

_MARKER_CONTENT = b"Rescale made this directory for the documents of a run, and removes only its own files here.\n"

_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC


_protected_device_paths: dict[str, DevicePath] = {}
"""Device paths of protected directories, by the path that was given."""

_checked_identities: dict[Path, Identity] = {}
_first_real_paths: dict[Path, str] = {}
_made_identities: set[Identity] = set()


def protect(folders: Iterable[str]) -> None:
    """Refuse every later change in or below these directories, by whatever name they are reached."""
    for folder in folders:
        if folder not in _protected_device_paths:
            _protected_device_paths[folder] = device_path_of(Path(folder))
            _checked_identities.clear()


def protected_folders() -> tuple[str, ...]:
    """Return the protected directories, as they were given."""
    return tuple(_protected_device_paths)


def forget() -> None:
    """Forget which directories are protected or made, and where paths led, as at the start of the process."""
    for cache in (_protected_device_paths, _checked_identities, _first_real_paths, _made_identities):
        cache.clear()


def new_file(path: Path) -> int:
    """Create a file, which must not exist, and return its descriptor for reading and writing."""
    with _opened_parent(path) as folder, path_in_errors(path):
        return os.open(path.name, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FILE_FLAGS, 0o666, dir_fd=folder)


def open_for_writing(path: Path) -> int:
    """Open an existing file, which must not be a link, and return its descriptor for reading and writing."""
    with _opened_parent(path) as folder, path_in_errors(path):
        return os.open(path.name, os.O_RDWR | _FILE_FLAGS, dir_fd=folder)


def open_in(folder: int, name: str) -> int:
    """Open a file in the directory `folder` (a descriptor) to read and write: some file systems need this for locks."""
    return os.open(name, os.O_RDWR | os.O_NONBLOCK | _FILE_FLAGS, dir_fd=folder)


def open_to_append(path: Path) -> IO[bytes]:
    """Open a file to append to, and create it if it does not exist."""
    with _opened_parent(path) as folder, path_in_errors(path):
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _FILE_FLAGS
        return os.fdopen(os.open(path.name, flags, 0o666, dir_fd=folder), "ab")


def write_new(path: Path, data: bytes) -> None:
    """Create a file with these bytes. Raises `FileExistsError` if it exists."""
    with os.fdopen(new_file(path), "wb") as file:
        file.write(data)


def replace(path: Path, new_path: Path) -> None:
    """Rename a file to `new_path`, and replace the file that has that name."""
    with _opened_parent(path) as folder, _opened_parent(new_path) as new_folder, path_in_errors(path):
        os.replace(path.name, new_path.name, src_dir_fd=folder, dst_dir_fd=new_folder)


def link(path: Path, new_path: Path) -> None:
    """Create `new_path` as a hard link to a file. Raises `FileExistsError` if `new_path` exists."""
    with _opened_parent(path) as folder, _opened_parent(new_path) as new_folder, path_in_errors(path):
        os.link(path.name, new_path.name, src_dir_fd=folder, dst_dir_fd=new_folder, follow_symlinks=False)


def link_from(source: Path, path: Path) -> None:
    """Create `path` as a hard link to `source`, a file that Rescale need not have made and does not change.

    Raises `FileExistsError` if `path` exists.
    """
    with _opened_parent(path) as folder, path_in_errors(path):
        os.link(source, path.name, dst_dir_fd=folder)


def symlink(path: Path, destination: str) -> None:
    with _opened_parent(path) as folder, path_in_errors(path):
        os.symlink(destination, path.name, dir_fd=folder)


def unlink(path: Path) -> None:
    """Remove a file or a link (not its target), if it exists."""
    with suppress(FileNotFoundError), _opened_parent(path) as folder, path_in_errors(path):
        os.unlink(path.name, dir_fd=folder)


def make_folder(folder: Path, after_each: Callable[[Path], None] = lambda _: None) -> None:
    """Make a directory and those above it, and call `after_each` with the parent of each new one.

    A directory of documents is marked. Raises `FileExistsError` if something else has the name.
    """
    if not folder.is_dir():
        make_folder(folder.parent, after_each)
        try:
            with _opened_parent(folder) as parent_descriptor, path_in_errors(folder):
                os.mkdir(folder.name, dir_fd=parent_descriptor)
        # Another process has made the directory; if the directory is removed again, the next write fails.
        except FileExistsError:
            if folder.is_symlink() and not folder.exists():
                raise
            with suppress(FileNotFoundError):
                if not stat.S_ISDIR(folder.stat().st_mode):
                    raise
        else:
            _checked_identities.pop(folder, None)  # the new directory may have the identity of a removed one
            _note_made(folder)
        after_each(folder.parent)
    if folder.name.endswith(DOCUMENTS_SUFFIX):
        with suppress(FileNotFoundError), opened_folder(folder):
            pass  # opening an empty directory of documents marks it


def make_unique_folder(parent_folder: Path, prefix: str) -> Path:
    """Make a directory with a new name in `parent_folder` that only this user can access, and return its path."""
    with opened_folder(parent_folder) as parent_descriptor:
        while True:
            path = parent_folder / f"{prefix}{uuid.uuid4().hex[:12]}"
            with suppress(FileExistsError), path_in_errors(path):
                os.mkdir(path.name, 0o700, dir_fd=parent_descriptor)
                _note_made(path)
                return path


def remove_folder(folder: Path) -> None:
    """Remove an empty directory if Rescale made it."""
    with suppress(OSError):
        with opened_folder(folder) as descriptor:
            identity_here = identity_from(os.fstat(descriptor))
            is_in_marked = is_inside_marked(folder)
            may_be_removed = is_in_marked or folder.name.endswith(DOCUMENTS_SUFFIX)
            if not may_be_removed and identity_here not in _made_identities and not records_made_target(folder):
                return
            if folder.name.endswith(DOCUMENTS_SUFFIX) and _names_in(descriptor) <= HIDDEN_NAMES:
                for name in sorted(HIDDEN_NAMES):
                    with suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=descriptor)
        try:
            with _opened_parent(folder) as parent_descriptor:
                os.rmdir(folder.name, dir_fd=parent_descriptor)
        except OSError:
            if folder.name.endswith(DOCUMENTS_SUFFIX):  # another run has just put a document into it
                mark(folder)
            return
        _made_identities.discard(identity_here)
        if is_in_marked and is_inside_marked(folder.parent):
            remove_folder(folder.parent)


def remove_tree(folder: Path, identity: Identity, last_name: str) -> None:
    """Remove a directory and its content if it still has this identity; the file `last_name` is removed last.

    Follows no links. Directories that are mounted below `folder` stay, with the directories that lead to them.
    """
    with _opened_parent(folder) as parent_descriptor:
        with closed_after(
            os.open(folder.name, _DIRECTORY_FLAGS | os.O_NOFOLLOW, dir_fd=parent_descriptor)
        ) as descriptor:
            if identity_from(os.fstat(descriptor)) != identity:
                return
            _remove_content(descriptor, mount_id_of(descriptor), last_name)
            with suppress(FileNotFoundError):
                os.unlink(last_name, dir_fd=descriptor)
        os.rmdir(folder.name, dir_fd=parent_descriptor)
    _made_identities.discard(identity)


def unpack(archive: Path, folder: Path, archive_format: str | None = None) -> None:
    """Unpack an archive into a new directory; `archive_format` is as in `shutil.unpack_archive`."""
    make_folder(folder)
    with opened_folder(folder):
        shutil.unpack_archive(archive, folder, archive_format)


def temporary_folder() -> str:
    """Return the system's directory for temporary files. Raises `FileNotFoundError` if none is writable."""
    return tempfile.gettempdir()


def unnamed_file(folder: str | None = None) -> IO[bytes]:
    """Open a file without a name, which is removed when it is closed; `folder` is its directory."""
    return tempfile.TemporaryFile(dir=folder)


def spooled_file(memory_bytes: int, folder: str) -> IO[bytes]:
    """Open a file as `unnamed_file` does, but keep it in memory up to `memory_bytes` bytes."""
    return tempfile.SpooledTemporaryFile(memory_bytes, dir=folder)


def mark(folder: Path) -> None:
    """Mark an existing directory of documents, which must not be a link, as Rescale's."""
    with closed_after(os.open(folder, FOLDER_FLAGS | os.O_NOFOLLOW)) as descriptor:
        _mark(descriptor)


def refuse_forbidden_folder(folder: Path) -> None:
    """Raise `RequestError` if a directory must not be changed; accept one that does not exist or is not accessible."""
    with suppress(OSError), opened_folder(folder):
        pass


def are_in_one_mount(*folders: Path) -> bool:
    """Tell whether a rename can move a file from the first directory to the second.

    Device numbers do not tell, because a file system may be mounted twice. But rename(2) of a name that does not exist
    fails with `EXDEV` if it would cross mounts.
    """
    name = uuid.uuid4().hex
    first_folder, second_folder = folders
    try:
        os.rename(first_folder / name, second_folder / name)  # noqa: PTH104
    except OSError as error:
        return error.errno != errno.EXDEV
    return True


@contextmanager
def opened_folder(folder: Path) -> Iterator[int]:
    """Open a directory for the block, to change it. Raises `RequestError` if it must not be changed."""
    with path_in_errors(folder):
        folder_descriptor = os.open(folder, FOLDER_FLAGS)
    with closed_after(folder_descriptor) as descriptor:
        identity = identity_from(os.fstat(descriptor))
        if _checked_identities.get(folder) != identity:
            _check_folder(folder, descriptor, identity)
        yield descriptor


@contextmanager
def _opened_parent(path: Path) -> Iterator[int]:
    with opened_folder(path.parent) as descriptor:
        yield descriptor


def _check_folder(folder: Path, descriptor: int, identity: Identity) -> None:
    real_path = os.path.realpath(folder)
    if _first_real_paths.setdefault(folder, real_path) != real_path:
        raise RequestError(
            "a directory was replaced by another one while Rescale wrote to it",
            path=str(folder),
            expected=_first_real_paths[folder],
            found=real_path,
            advice=Advice("find out what changed it, undo that, then ", SAME_COMMAND),
        )
    _refuse_protected(folder, real_path)
    if is_below_documents(folder):
        refuse_link_or_mount(folder)
        with opened_folder(folder.parent):
            pass
    if folder.name.endswith(DOCUMENTS_SUFFIX):
        _check_marked(folder, descriptor)
    _checked_identities[folder] = identity


def _refuse_protected(folder: Path, real_path: str) -> None:
    if not _protected_device_paths:
        return
    device_path = device_path_of(folder)
    for given_path, protected_device_path in _protected_device_paths.items():
        if protected_device_path.contains(device_path):
            raise RequestError(
                "this directory is the source or lies in it, and Rescale never writes to a source",
                path=str(folder),
                expected=f"a directory apart from {given_path}",
                found=real_path,
                advice="name a directory from which no link or mount leads into the source",
            )


def _check_marked(folder: Path, descriptor: int) -> None:
    refuse_link_or_mount(folder)
    try:
        marker = os.stat(MARKER, dir_fd=descriptor, follow_symlinks=False)
    except FileNotFoundError:
        names = _names_in(descriptor)
        if MARKER in names:  # another thread or process has just marked it
            _check_marked(folder, descriptor)
            return
        if names:
            raise not_ours_error(folder, f"other files ({len(names)}), such as {min(names)}") from None
        _mark(descriptor)
        return
    owner = os.fstat(descriptor).st_uid
    if not stat.S_ISREG(marker.st_mode) or owner not in (os.geteuid(), marker.st_uid):
        raise not_ours_error(folder, f"a directory of user {owner}")


def _names_in(descriptor: int) -> set[str]:
    with closed_after(os.open(".", _DIRECTORY_FLAGS, dir_fd=descriptor)) as folder_descriptor:
        return set(os.listdir(folder_descriptor))  # noqa: PTH208


def _mark(descriptor: int) -> None:
    with suppress(FileExistsError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE_FLAGS
        with closed_after(os.open(MARKER, flags, 0o666, dir_fd=descriptor)) as file:
            os.write(file, _MARKER_CONTENT)


def _note_made(folder: Path) -> None:
    """Remember that this process made a directory. If it is a target, its documents record that for later processes."""
    if (identity := identity_of(folder)) is not None:
        _made_identities.add(identity)
    documents = documents_of(folder)
    if not folder.name.endswith(DOCUMENTS_SUFFIX) and is_marked(documents):
        with suppress(OSError), opened_folder(documents) as descriptor:
            flags = os.O_WRONLY | os.O_CREAT | _FILE_FLAGS
            os.close(os.open(MADE_TARGET_MARKER, flags, 0o666, dir_fd=descriptor))


def _remove_content(descriptor: int, mount_id: str | None, kept_name: str) -> None:
    with os.scandir(descriptor) as entries:
        entries_to_remove = [
            (entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries if entry.name != kept_name
        ]
    for name, is_folder in entries_to_remove:
        if not is_folder:
            os.unlink(name, dir_fd=descriptor)
            continue
        with closed_after(os.open(name, _DIRECTORY_FLAGS | os.O_NOFOLLOW, dir_fd=descriptor)) as folder:
            if mount_id_of(folder) != mount_id or os.fstat(folder).st_dev != os.fstat(descriptor).st_dev:
                continue
            _remove_content(folder, mount_id, "")
        os.rmdir(name, dir_fd=descriptor)
