"""The store of local (or network-mounted) files.

A file is written under a temporary name and forced to disk. Then a rename or a link gives it its own name, and the
directories that lead to it are forced to disk.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import stat
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from pathlib import Path

from rescale.storage.checksums import Checksum
from rescale.storage.contract import Entry, PartLimits, Pin, Span, holds_bytes, instant_of
from rescale.storage.files import document_folders, owned
from rescale.storage.files.durable_directories import are_in_one_mount, directory_for, force_to_disk, make_directory
from rescale.storage.files.local_errors import NO_LINK_ERRORS, is_absent, translated_errors
from rescale.storage.files.mounts import closed_after
from rescale.storage.files.pinned_files import copy_span, have_same_bytes, opened_file, pin_of, read_exactly
from rescale.storage.files.temporary_files import remove_abandoned, temporary_file
from rescale.storage.side_by_side import side_by_side
from rescale.text.advice import Advice, mention
from rescale.text.errors import RequestError, SnapshotError, StoreError, UnsupportedError

_ATTEMPTS = 8

_PATIENCE_SECONDS = 0.01
"""Seconds, about as long as threads take to start, after which files are looked up in parallel, not one by one."""

_WRITTEN_BYTES_AT_ONCE = 1 << 20
"""Largest number of bytes that one call writes. For a larger write, Linux takes memory for its cache in blocks of 2
MiB. A virtual machine may have returned such blocks to its host; fetching them again took seven times as long as the
write.
"""

_PARTIAL_SUFFIX = re.compile(r"\.[0-9a-f]{32}")
"""Suffix of the name of a file that is written in parts, until it is complete."""

_BEGIN_WRITE_BACK = 2  # SYNC_FILE_RANGE_WRITE: start to write dirty pages, without waiting for them


class LocalStore:
    """`Store` over the file system."""

    part_limits = PartLimits(
        smallest_part_bytes=1, most_parts=10_000
    )  # local files have no limits; this is S3's number of parts

    def stat(self, uri: str) -> Pin | None:
        with translated_errors(uri):
            try:
                status = Path(uri).stat()
            except (OSError, ValueError) as error:
                if is_absent(error):
                    return None
                raise
            return pin_of(status) if stat.S_ISREG(status.st_mode) else None

    def stats(self, uris: Sequence[str]) -> list[Pin | None]:
        """Look up one file after another; if that is slow, as over a network, the remaining ones in parallel."""
        start_time, pins = time.monotonic(), list[Pin | None]()
        while len(pins) < len(uris) and time.monotonic() - start_time < _PATIENCE_SECONDS:
            pins.append(self.stat(uris[len(pins)]))
        return [*pins, *side_by_side(self.stat, uris[len(pins) :])]

    def modification_time(self, uri: str) -> datetime | None:
        pin = self.stat(uri)
        return instant_of(pin.mtime_ns) if pin is not None and pin.mtime_ns is not None else None

    def checksums(self, uri: str, pin: Pin) -> Sequence[Checksum]:  # noqa: ARG002
        return ()

    def chunk_size(self, length: int, bytes_at_once: int | None = None) -> int:  # noqa: ARG002
        return bytes_at_once or 1 << 20  # 1 MiB stays in the processor's cache for the hash or comparison that follows

    def read(self, uri: str, start: int, length: int, pin: Pin | None = None) -> bytes:
        with translated_errors(uri), opened_file(uri, pin) as descriptor:
            return read_exactly(uri, descriptor, start, length)

    def read_all(self, uri: str, limit_bytes: int) -> tuple[bytes, Pin]:
        with translated_errors(uri), opened_file(uri) as descriptor:
            status = os.fstat(descriptor)
            if status.st_size > limit_bytes:
                raise SnapshotError(
                    "a file is too large",
                    path=uri,
                    expected=f"at most {limit_bytes} bytes",
                    found=f"{status.st_size} bytes",
                )
            return read_exactly(uri, descriptor, 0, status.st_size), pin_of(status)

    def put(self, uri: str, data: bytes | bytearray) -> None:
        _refuse_device(uri)
        if holds_bytes(self, uri, data):
            return
        with translated_errors(uri), temporary_file(uri, _writer_of(data)) as path:
            owned.replace(path, Path(uri))
            force_to_disk(Path(uri).parent)

    def put_if_absent(self, uri: str, data: bytes) -> bool:
        with translated_errors(uri):
            with temporary_file(uri, _writer_of(data)) as path:
                try:
                    owned.link(path, Path(uri))
                    holds_data = True
                except FileExistsError:
                    holds_data = holds_bytes(self, uri, data)
                except OSError as error:
                    if error.errno not in NO_LINK_ERRORS:
                        raise
                    raise UnsupportedError(
                        f"the file system has no hard links, which a put-if-absent needs: {error.strerror}",
                        path=uri,
                        advice=Advice(
                            "name a target on another file system, or make sure yourself that no other run has this "
                            "target, and give ",
                            mention("accept-unconditional-publish"),
                        ),
                    ) from None
            force_to_disk(Path(uri).parent)
            return holds_data

    def honours_conditions(self, uri: str, data: bytes) -> bool:  # noqa: ARG002
        return True  # link(2) never replaces a file

    def list(self, directory: str, prefix: str = "") -> list[Entry]:
        def fail(error: OSError) -> None:
            if error.filename == directory:
                _refuse_unlisted(directory, error)
            # A directory that may not be read, such as `lost+found`, is not ours and is left out.
            elif error.errno != errno.EACCES and not is_absent(error):
                raise error

        entries = []

        with translated_errors(directory):
            for folder, folders, names in os.walk(directory, onerror=fail):
                if folder == directory:
                    for entry_names in (folders, names):
                        entry_names[:] = [name for name in entry_names if name.startswith(prefix)]
                for name in names:
                    if name in document_folders.HIDDEN_NAMES and folder.endswith(document_folders.DOCUMENTS_SUFFIX):
                        continue
                    path = Path(folder, name)
                    with suppress(FileNotFoundError):  # the file was removed after it was listed
                        entries.append(Entry(str(path), pin_of(path.stat())))
        return sorted(entries, key=lambda entry: entry.uri)

    def folder_names(self, directory: str) -> Sequence[str]:
        with translated_errors(directory):
            try:
                return sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
            except OSError as error:
                _refuse_unlisted(directory, error)
                return []

    def delete(self, uris: Iterable[str]) -> None:
        parents = set()
        for uri in uris:
            with translated_errors(uri), suppress(NotADirectoryError):
                owned.unlink(Path(uri))
            parents.add(Path(uri).parent)
        for folder in sorted(parents, key=lambda path: len(path.parts), reverse=True):
            owned.remove_folder(folder)

    def begin_parts(self, uri: str, staging: str) -> str:
        # Every run needs a file of its own: if two runs shared it, the second run's file could lack parts.
        name = Path(uri).name
        path = Path(staging, f"{name}.{uuid.uuid4().hex}")
        owned.refuse_forbidden_folder(Path(uri).parent)
        _refuse_mount_point(Path(uri).parent, path.parent)
        with suppress(FileNotFoundError):  # another run may remove the staging directory
            for file in Path(staging).iterdir():
                if _PARTIAL_SUFFIX.fullmatch(file.name.removeprefix(name)) and file.name.startswith(name):
                    self.delete([str(file)])
        for _ in range(_ATTEMPTS):
            # Another task that completes its file may remove the empty staging directory: then try again.
            with translated_errors(uri), suppress(FileNotFoundError):
                with directory_for(path.parent):
                    os.close(owned.new_file(path))
                return str(path)
        raise StoreError("the staging directory was removed again and again", path=staging)

    def put_part(self, uri: str, upload_id: str, number: int, offset: int, data: bytes | bytearray) -> str:  # noqa: ARG002
        # Without O_CREAT: a task that wakes up after the file was completed must not create another one.
        with translated_errors(upload_id), closed_after(owned.open_for_writing(Path(upload_id))) as descriptor:
            view, position = memoryview(data), offset
            while view:
                written_bytes = os.pwrite(descriptor, view[:_WRITTEN_BYTES_AT_ONCE], position)
                view, position = view[written_bytes:], position + written_bytes
            begin_write_back(descriptor, offset, len(data))
        return ""

    def copy(self, uri: str, source: Span) -> None:
        with translated_errors(uri), temporary_file(uri, lambda file: copy_span(source, file, 0)) as path:
            if not have_same_bytes(path, Path(uri), source.length):
                owned.replace(path, Path(uri))
                force_to_disk(Path(uri).parent)

    def keep(self, uri: str, source: Span) -> None:
        """Create a hard link; copy the file if the link would cross file systems, or the file system has no links."""
        path = Path(uri)
        with translated_errors(uri), opened_file(source.uri, source.pin), directory_for(path.parent):
            try:
                owned.link_from(Path(source.uri), path)
            except OSError:  # `copy`, below, reports a missing source and compares a file that exists at `uri`
                pass
            else:
                if self.stat(uri) == source.pin:
                    force_to_disk(path.parent)
                    return
                owned.unlink(path)  # another file got the source's name after it was opened
        self.copy(uri, source)

    def copy_part(self, uri: str, upload_id: str, number: int, offset: int, source: Span) -> str:  # noqa: ARG002
        with translated_errors(upload_id), closed_after(owned.open_for_writing(Path(upload_id))) as descriptor:
            copy_span(source, descriptor, offset)
            begin_write_back(descriptor, offset, source.length)
        return ""

    def complete_parts(self, uri: str, upload_id: str, receipts: Sequence[str], size: int) -> None:  # noqa: ARG002
        with translated_errors(uri):
            try:
                written_size = Path(upload_id).stat().st_size
                if written_size != size:
                    raise StoreError(
                        "parts of a file are missing",
                        path=upload_id,
                        expected=f"{size} bytes",
                        found=f"{written_size} bytes",
                    )
                if not have_same_bytes(Path(upload_id), Path(uri), size):
                    make_directory(Path(uri).parent)
                    force_to_disk(Path(upload_id))
                    owned.replace(Path(upload_id), Path(uri))
                    force_to_disk(Path(uri).parent)
            except FileNotFoundError:
                current_pin = self.stat(uri)
                if current_pin is None or current_pin.size != size:
                    raise
        self.delete([upload_id])

    def abort_parts(self, uri: str, is_ours: Callable[[str], bool] | None = None) -> None:  # noqa: ARG002
        """Remove temporary files of dead processes; the owner of the staging directory removes parts."""
        with translated_errors(uri):
            remove_abandoned(Path(uri))


def _refuse_device(uri: str) -> None:
    """Refuse to replace a pipe or a device, such as `/dev/stdout`, by a file."""
    with translated_errors(uri):
        try:
            mode = Path(uri).stat().st_mode
        except (OSError, ValueError) as error:
            if is_absent(error):
                return
            raise
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # the file system itself refuses to replace a directory
        raise RequestError(
            "a pipe or a device has this name, and a file cannot replace it",
            path=uri,
            expected="a file, or nothing yet",
            found="a pipe or a device",
            advice="name a file",
        )


def _refuse_mount_point(folder: Path, staging: Path) -> None:
    """Refuse a directory in another mount than its staging directory before anything is written.

    Staged files are moved by a rename, which cannot cross mounts.
    """
    with translated_errors(str(folder)):
        if are_in_one_mount(folder, staging):
            return
    raise RequestError(
        "large files cannot be written here: they are staged beside this directory, which is in another mount",
        path=str(folder),
        expected=f"a directory in the mount of {staging}",
        found="a mount point",
        advice=f"name a directory below it, such as {folder / 'result'}",
    )


def _refuse_unlisted(directory: str, error: OSError) -> None:
    """Raise the error of a listing, unless the directory is absent or a file: both are listed as empty.

    Raises `RequestError` if the directory lies below a file, or is a link to nothing, a pipe or a device.
    """
    if not is_absent(error):
        raise error
    if (file := next((str(path) for path in Path(directory).parents if path.is_file()), None)) is not None:
        raise RequestError(
            "a file stands where a directory is needed", path=file, advice="use a path that is not below a file"
        )
    if _is_special(directory):
        raise RequestError(
            "this name is neither a directory nor a file",
            path=directory,
            expected="a directory, or nothing yet",
            found="a link to nothing, a pipe or a device",
            advice="use another path",
        )


def _is_special(path: str) -> bool:
    """Tell whether a path is neither a directory nor a file.

    A single `stat` decides that, because another run may change the path between two calls.
    """
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return Path(path).is_symlink()
    return not (stat.S_ISDIR(mode) or stat.S_ISREG(mode))


def _writer_of(data: bytes | bytearray) -> Callable[[int], None]:
    def write(descriptor: int) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view[:_WRITTEN_BYTES_AT_ONCE]) :]

    return write


def begin_write_back(descriptor: int, offset: int, length: int) -> None:
    """Start the write-back of a range of a file; does nothing if the system cannot."""
    call = _sync_file_range()
    if call is not None:
        call(descriptor, offset, length, _BEGIN_WRITE_BACK)


@cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """Return Linux's `sync_file_range`; None on other systems."""
    call = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return call
